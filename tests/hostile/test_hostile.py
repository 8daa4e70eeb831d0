"""A little of what `texts` and `options` draw, in every run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflat.spelling import parse
from hostile import options, texts


def test_texts_are_read_or_refused() -> None:
    parse("fedavg", "method")  # what is imported by the first one is no part of its time
    seen = [texts.check(trial) for trial in texts.texts(seed=7, count=150)]
    assert set(seen) == {"read", "refused"}


def test_command_lines_end_with_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    seen = [options.check(words, folder) for words in options.options(seed=7, count=25, folder=folder)]
    assert set(seen) <= {0, 2}


def test_the_checks_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, kind: str) -> object:
        raise ZeroDivisionError

    monkeypatch.setattr(texts, "parse", broken)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        texts.check(texts.Trial("fedavg", "method"))
    monkeypatch.setattr(texts, "parse", lambda text, kind: object())
    with pytest.raises(AssertionError, match="is read as something else"):
        texts.check(texts.Trial("fedavg", "method"))
    folder = tmp_path / "inside"
    folder.mkdir()
    for main, message in [
        (lambda words: 1 / 0, "ZeroDivisionError"),
        (lambda words: 1, "status 1"),
        (lambda words: 0, "nothing was said"),
        (lambda words: print(Path("../outside").write_text("fine")) or 0, "written beside the folder"),
    ]:
        monkeypatch.setattr(options, "main", main)
        with pytest.raises(AssertionError, match=message):
            options.check(["run"], folder)
