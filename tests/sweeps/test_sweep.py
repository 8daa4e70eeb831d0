"""Sweeps: what is run, what is chosen, and what tables say."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import fedflat as ff
from fedflat.cli import main
from fedflat.errors import SettingError, SpellingError
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.study_file import read_plan
from fedflat.experiments.search_space import families
from fedflat.papers.presets import find
from fedflat.registry.choices import read_template
from fedflat.registry.specs import parse
from fedflat.report.collect import collect
from fedflat.server.ledger import Ledger
from fedflat.sweeps.selection import axes, best, cells, trials
from fedflat.sweeps.sweep import planned

DATA = "digits(lda(0), clients=10)"


def result(method: str, lr: float, seed: int, validation: float, test: float = 0.5) -> Result:
    """A finished run with these scores."""
    row = {
        "round": 1,
        "loss": 1.0,
        "accuracy": test,
        "tests": {"validation": {"accuracy": validation}},
    }
    settings = {"lr": lr, "seed": seed}
    return Result(method, seed, "done", 1, 1, [row], Ledger(), settings=settings)


def test_a_grid_has_every_combination() -> None:
    methods = ["fedavg", "fedsam(rho={0.1, 0.2, 0.3})"]
    found = [family.grid() for family in families(methods, {"lr": [0.01, 0.1], "rounds": 3})]
    assert [len(each) for each in found] == [2, 6]
    assert [(one.method, one.settings["lr"]) for one in found[1]][:3] == [
        ("fedsam(rho=0.1)", 0.01),
        ("fedsam(rho=0.1)", 0.1),
        ("fedsam(rho=0.2)", 0.01),
    ]


def test_every_run_knows_how_many_settings_are_tried() -> None:
    each, tried = planned(
        ["fedavg", "fedsam(rho={0.1, 0.2})"], {"on": DATA, "rounds": 1, "lr": [0.01, 0.1]}, 3
    )
    assert len(each) == 18
    assert tried == [2] * 6 + [4] * 12
    assert {exp.validation for exp in each} == {0.1}


def test_random_settings_lie_in_their_ranges_and_differ() -> None:
    (family,) = families(["fedsam(rho={log(0.01, 1)})"], {"local_epochs": "{whole(1, 3)}"})
    drawn = family.sample(20, seed=1)
    values = [(float(one.values["rho"]), one.values["local_epochs"]) for one in drawn]
    assert len(set(values)) == 20
    assert all(0.01 <= rho <= 1 and epochs in (1, 2, 3) for rho, epochs in values)
    assert drawn == family.sample(20, seed=1)
    assert drawn != family.sample(20, seed=2)
    with pytest.raises(SettingError, match="rho has the range"):
        family.grid()


def test_the_validation_set_chooses_and_not_the_test_set() -> None:
    runs = [
        result("fedsam(rho=0.1)", 0.1, 0, validation=0.6, test=0.9),
        result("fedsam(rho=0.1)", 0.1, 1, validation=0.8, test=0.9),
        result("fedsam(rho=0.2)", 0.1, 0, validation=0.9, test=0.1),
        result("fedsam(rho=0.2)", 0.1, 1, validation=0.7, test=0.1),
        result("fedavg()", 0.1, 0, validation=0.5),
    ]
    chosen = best(trials(runs))
    assert {name: one.method for name, one in chosen.items()} == {
        "fedsam": "fedsam(rho=0.2)",
        "fedavg": "fedavg()",
    }
    assert chosen["fedsam"].score == pytest.approx(0.8)


def test_a_setting_that_diverges_with_one_seed_is_not_chosen() -> None:
    lost = replace(result("fedavg()", 1.0, 0, 0.99), status="diverged")
    runs = [lost, result("fedavg()", 1.0, 1, 0.99), result("fedavg()", 0.1, 0, 0.2)]
    each = trials(runs)
    assert math.isnan(each[0].score)
    assert best(each)["fedavg"].values["lr"] == 0.1


def test_a_heat_map_has_the_best_over_the_other_settings() -> None:
    runs = [
        result(f"fedsam(rho={rho}, eta={eta})", lr, 0, lr + rho + eta)
        for rho in (0.2, 0.1)
        for eta in (0.0, 0.3)
        for lr in (0.01, 0.1)
        if (rho, lr) != (0.2, 0.1)
    ]
    each = trials(runs)
    assert list(axes(each, "fedsam")) == ["lr", "rho", "eta"]
    across, up, scores = cells(each, "fedsam", "lr", "rho")
    assert (across, up) == ([0.01, 0.1], [0.1, 0.2])
    assert scores[0] == pytest.approx([0.41, 0.5])
    assert scores[1][0] == pytest.approx(0.51)
    assert math.isnan(scores[1][1])


def test_a_sweep_in_memory_says_how_many_were_tried() -> None:
    found = ff.sweep("fedavg", on=DATA, rounds=1, clients_per_round=2, lr=[0.01, 0.1], quiet=True)
    assert [run.settings["lr"] for run in found.results] == [0.01, 0.1]
    assert [run.tried for run in found.results] == [2, 2]
    assert "settings tried" in found.table()
    assert len(found.chosen) == 1
    frame = found.results.frame()
    assert set(frame["lr"]) == {0.01, 0.1}


def test_a_sweep_goes_on_in_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs are done in this process; continued, a sweep that has ended prints the same."""
    monkeypatch.setattr(
        "fedflat.sweeps.sweep.run_study", lambda folder, *rest: ff.resume(folder, quiet=True)
    )
    out = tmp_path / "sweep"
    words = ["fedsam(rho={0.05, 0.1})", "--on", DATA, "--rounds", "1", "--quiet"]
    assert main(["sweep", *words, "--clients-per-round", "2", "--out", str(out)]) == 0
    assert [run.tried for run in read_plan(out).runs] == [2, 2]
    first = capsys.readouterr().out
    assert "settings tried" in first
    assert main(["sweep", "--resume", str(out), "--quiet"]) == 0
    assert capsys.readouterr().out == first
    assert main(["table", str(out)]) == 0
    text = capsys.readouterr().out
    assert "settings tried" in text
    assert "rounds to" not in first.lower() + text.lower()  # the first setting is no target
    assert [board["target"] for board in collect([out])["boards"]] == [None]
    assert main(["table", str(out), "--target", "1%"]) == 0
    assert "rounds to 1.0 %" in capsys.readouterr().out.lower()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fedavg", "--search", "random"], "needs the number of trials"),
        (["fedsam(rho={0.1, 0.1})"], "is there twice"),
        (["fedsam(rho={log(0.1, 0.1)})"], "a range has a low and a high number"),
        (["fedsam(rho={0.1)"], "is not closed"),
        ([], "no method was given"),
        (["fedavg", "--resume", "runs/none"], "Leave out METHOD"),
    ],
)
def test_mistakes(words: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *words, "--on", DATA, "--rounds", "1"]) == 2
    assert message in capsys.readouterr().err


def test_a_closing_brace_alone_is_refused() -> None:
    with pytest.raises(SpellingError, match="without a"):
        read_template("fedsam(rho=0.1})")


def test_a_preset_gives_the_settings_and_the_command_the_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: dict[str, object] = {}

    class Seen(Exception):
        """Stands for the runs."""

    def keep(methods: Sequence[str], settings: dict[str, object], seeds: object, *rest: object):  # type: ignore[no-untyped-def]
        seen.update(settings, methods=list(methods), seeds=list(seeds))  # type: ignore[call-overload]
        raise Seen

    monkeypatch.setattr("fedflat.cli.sweep.planned", keep)
    name = "fedgloss/cifar10-cnn-alpha0"
    preset = find(name)
    with pytest.raises(Seen):
        main(["sweep", "fedsam(rho={0.05, 0.1})", "--preset", name, "--rounds", "50"])
    assert seen["methods"] == ["fedsam(rho={0.05, 0.1})"]
    assert (seen["on"], seen["model"], seen["rounds"]) == (preset.on, preset.model, 50)
    assert seen["lr"] == preset.settings["lr"]


GRIDS = re.findall(
    r"\| `([^`]*\{[^`]*)` \|",
    Path(__file__).parents[2].joinpath("docs/howto/sweeps.md").read_text(),
)


@pytest.mark.parametrize("text", GRIDS)
def test_the_grids_of_papers_can_be_read(text: str) -> None:
    (family,) = families([text], {})
    for one in family.grid():
        parse(str(one.method), "method")


def test_the_page_has_the_grids_of_papers() -> None:
    sizes = [families([text], {})[0].size for text in GRIDS]
    cnn, others = [4, 3, 3, 36, 12, 108, 4, 2, 36, 10, 120], [3, 6, 4, 16, 2, 2, 16, 36]
    eccv22, fedfsa, wima = [6, 28, 4, 36, 3, 9, 9, 3, 9], [7], [5, 2, 3, 6, 3, 2, 12]
    assert sizes == [*cnn, *others, *eccv22, *fedfsa, *wima, 3, 3, 6, 3, 4, 6]


def test_compare_has_a_row_for_each_value(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--lr", "0.01,0.1", "--on", DATA, "--rounds", "1", "--clients-per-round", "2"]
    both = ["fedavg", "fedsam"]
    assert main(["compare", *both, *words, "--quiet", "--out", str(tmp_path / "c")]) == 0
    printed = capsys.readouterr().out
    assert "rounds to" not in printed.lower()
    assert "fedavg(), lr=0.01" in printed
    assert "fedavg(), lr=0.1 " in printed
