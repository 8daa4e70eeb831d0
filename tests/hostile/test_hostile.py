"""A little of what `make test-hostile` tries, in every run of the tests; kills are in
tests/runs/test_kill.py."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from fedflat.registry.specs import parse
from hostile import damages, folders, limits, options, properties, texts


def test_texts_are_read_or_refused() -> None:
    parse("fedavg", "method")  # what is imported by the first one is no part of its time
    seen = [texts.check(trial) for trial in texts.texts(seed=7, count=150)]
    assert set(seen) == {"read", "refused"}


def test_command_lines_end_with_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    seen = [
        options.check(words, folder) for words in options.options(seed=7, count=25, folder=folder)
    ]
    assert set(seen) <= {0, 2}


def test_a_property_that_does_not_hold_is_found(tmp_path: Path) -> None:
    """Which draws are wrong is found, and which seed found them; one file of the suite would do as
    well."""
    text = "from hypothesis import given, strategies as st\n\n@given(st.integers(0, 9))\ndef test_{}: assert {}\n"
    for name, body in {"fine": "number < 10", "wrong": "number < 9"}.items():
        (tmp_path / f"test_{name}.py").write_text(text.format(f"{name}(number)", body))
    (tmp_path / "conftest.py").write_text((properties.TESTS / "conftest.py").read_text())
    files = sorted(tmp_path.glob("test_*.py"))
    held, failed = properties.properties(seed=7, count=1, scratch=tmp_path, files=files)
    assert held == "held"
    assert failed.startswith("FAILED: ")
    assert "test_wrong with --hypothesis-seed=7" in failed
    assert "number=9" in failed
    files[0].write_text("import nothing_of_that_name")
    broken = list(properties.properties(seed=7, count=1, scratch=tmp_path, files=files[:1]))
    assert len(broken) == 1
    assert "nothing_of_that_name" in broken[0]


def test_every_property_test_is_tried_with_fresh_draws() -> None:
    drawing = {
        path for path in properties.TESTS.rglob("test_*.py") if "@given(" in path.read_text()
    }
    assert drawing == set(properties.property_tests())


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> folders.Ground:
    return folders.Ground(tmp_path_factory.mktemp("hostile"))


@pytest.mark.slow
def test_damaged_folders_are_healed_or_refused(ground: folders.Ground) -> None:
    seen = [ground.check(trial) for trial in folders.folders(seed=7, count=20)]
    assert set(seen) == set(folders.VERDICTS)


def test_every_damage_can_be_done(ground: folders.Ground) -> None:
    """Whatever is drawn; most of them leave traces."""
    seen = set()
    for seed in range(80):
        name = list(folders.OTHER)[seed % len(folders.OTHER)]
        ground.lay_out(name)
        messages = damages.damage(
            random.Random(seed), ground.bad, ground.made / folders.OTHER[name], ground.outside
        )
        seen.add(messages.split()[0])
    assert seen == {todo.__name__[1:] for todo in damages.DAMAGES}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda words: 1 / 0, "ZeroDivisionError"),
        (lambda words: time.sleep(3600), "Hang"),
        (lambda words: print(f"fine {words[1]}") or 0, "resume|analyse|report"),
        (lambda words: Path("bad/../../outside/victim").write_text("gone"), "status|outside"),
    ],
)
def test_the_check_of_folders_notices(
    ground: folders.Ground, monkeypatch: pytest.MonkeyPatch, broken, message
) -> None:
    monkeypatch.setattr(limits, "main", broken)
    if message == "Hang":
        monkeypatch.setattr(limits, "SECONDS", 0.2)
    trial = folders.Trial("done-0", seed=7)
    with pytest.raises(AssertionError, match=message):
        ground.check(trial)


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
        (lambda words: 1, "status=1"),
        (lambda words: 0, "nothing was said"),
        (
            lambda words: print(Path("../outside").write_text("fine")) or 0,
            "written beside the folder",
        ),
    ]:
        monkeypatch.setattr(limits, "main", main)
        with pytest.raises(AssertionError, match=message):
            options.check(["run"], folder)
