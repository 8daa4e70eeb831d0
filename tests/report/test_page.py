"""The page as text: complete, safe, small."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fedflat.errors import RunError
from fedflat.report import collect, document, page, write_report
from report.written_runs import write_analyses, write_recorded, write_run

HOSTILE = "</script><script>alert(1)</script><!-- \"'`&amp; \u2028 <img src=x onerror=alert(1)>"


class Elements(HTMLParser):
    """The elements of a page, and the text of its document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][1].get("id") == "data":
            self.data += data


def embedded(text: str) -> dict[str, Any]:
    return json.loads(Elements(text).data)  # type: ignore[no-any-return]


def test_the_page_holds_its_document(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    write_analyses(run)
    found = embedded(page([run]))
    assert found["methods"][0]["name"] == "fedavg()"
    assert found["live"] is False
    assert embedded(page([run], live=True))["live"] is True


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", method=HOSTILE)
    write_analyses(run)
    text = page([run])
    tags = Elements(text)
    assert [tag for tag, _ in tags.found].count("script") == 2
    assert all(tag != "img" for tag, _ in tags.found)
    assert embedded(text)["methods"][0]["name"] == HOSTILE


def test_nothing_comes_from_elsewhere(tmp_path: Path) -> None:
    text = page([write_run(tmp_path / "a")])
    assert "default-src 'none'" in text
    assert "connect-src 'none'" in text
    for _, attributes in Elements(text).found:
        assert not attributes.get("src")
        assert (attributes.get("href") or "data:,").startswith("data:")
    urls = set(re.findall(r"https?://[^\s\"'<>)]+", text))
    assert urls == {"http://www.w3.org/2000/svg"}
    assert "@import" not in text


@pytest.mark.slow
def test_ten_methods_with_seeds_are_small(tmp_path: Path) -> None:
    """Ten methods, three seeds, a thousand rounds, surfaces of 51 x 51: below 8 MB."""
    long = {"done": 1000, "rounds": 1000}
    names = [(f"fedprox(mu={m})", seed) for m in range(10) for seed in range(3)]
    runs = [write_run(tmp_path / f"{m}-{seed}", method=m, seed=seed, **long) for m, seed in names]
    for run in runs:
        write_analyses(run, points=51)
        write_recorded(run, rounds=1000)
    assert write_report(runs, tmp_path / "out" / "report.html") == []
    assert (tmp_path / "out" / "report.html").stat().st_size < 8e6


def test_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run to report on"):
        write_report([tmp_path / "nowhere"], tmp_path / "report.html")
    assert "No runs" in document(collect([tmp_path / "nowhere"]), live=True)


def test_what_is_missing_is_returned(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    (run / "analysis").mkdir()
    (run / "analysis" / "surface-0.json").write_text("{")
    output = write_report([run], tmp_path / "report.html")
    assert "is damaged" in output[0]
    assert output[1].startswith("Not analysed:")


def test_an_unwritable_place_is_reported(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="could not be written"):
        write_report([run], tmp_path / "file" / "report.html")


def test_without_scripts_the_table_is_there(tmp_path: Path) -> None:
    text = page([write_run(tmp_path / "a")])
    inside = re.search(r"<noscript>(.*?)</noscript>", text, re.S)
    assert inside is not None
    assert "fedavg()" in inside[1]
    assert "accuracy %" in inside[1]
