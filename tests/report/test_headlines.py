"""The report of runs with other headline scores than accuracy, and of runs with different ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy import stats

from fedflat.cli import main
from fedflat.errors import SettingError
from fedflat.experiments.results.table_styles import RankedRun, lead, leader
from fedflat.report import collect, write_report
from fedflat.tasks.headline import Headline
from report.written_runs import write_headline_run, write_run

RMSE = Headline("rmse", higher_is_better=False)
MIOU = Headline("miou", "mIoU", "%", 100.0)
METHODS = ("fedavg()", "fedsam(rho=0.1)")


def compared(root: Path, headline: Headline, *, unseen: bool = False) -> list[Path]:
    """Two methods, two seeds: the second method has half the score of the first in every round."""
    return [
        write_headline_run(
            root / f"{headline.name}-{place}-{seed}",
            headline,
            [(0.9 - 0.1 * t + 0.01 * seed) / (place + 1) for t in range(4)],
            method=method,
            seed=seed,
            unseen=unseen,
        )
        for place, method in enumerate(METHODS)
        for seed in (0, 1)
    ]


def test_the_lowest_leads_where_less_is_better(tmp_path: Path) -> None:
    """Means over the last two of four rounds: 0.65 + 0.01 seed, and half of it; so the target is
    0.655."""
    found = collect(compared(tmp_path, RMSE, unseen=True))
    (board,) = found["boards"]
    assert board["headline"]["name"] == "rmse"
    assert not board["headline"]["higher_is_better"]
    assert (board["ahead"], board["target"], board["target_of_first"]) == (1, 0.655, True)
    first, second = found["methods"]
    assert (first["score"], second["score"], second["best"]) == (
        0.655,
        0.3275,
        pytest.approx((0.3 + 0.305) / 2),
    )
    assert (first["rounds_to_target"], second["rounds_to_target"]) == (4, 1)
    assert found["lead"] == "fedsam(rho=0.1) leads with the lowest rmse, 0.3275 ± 0.0035 (2 seeds)."
    assert second["tests"] == {"unseen": [0.655, pytest.approx(0.01 / 2**0.5, rel=1e-4)]}
    assert second["curves"]["tests.unseen"]["mean"][0] == pytest.approx(0.905)
    assert "accuracy" not in json.dumps(
        [found["boards"], found["methods"], found["lead"], found["text"]]
    )


def test_the_highest_leads_in_per_cent(tmp_path: Path) -> None:
    found = collect(compared(tmp_path, MIOU))
    assert found["boards"][0]["ahead"] == 0
    assert found["lead"] == "fedavg() leads with the highest mIoU, 65.50 ± 0.71 % (2 seeds)."
    assert "mIoU %" in found["text"]
    one = collect([write_headline_run(tmp_path / "one", MIOU, [0.5])])
    assert one["lead"] == "fedavg() reaches mIoU 50.00 % (1 seed)."


def test_welch_decides_in_the_direction_of_the_score() -> None:
    """Ahead exactly where scipy's one-sided test for a lower mean, at half of 5 %, says so."""
    for gap in (0.0, 0.01, 0.03, 0.05, 0.1, 0.2):
        low, high = (0.5, 0.51, 0.49), (0.5 + gap, 0.53 + gap)
        p = stats.ttest_ind(low, high, equal_var=False, alternative="less").pvalue
        a, b = (RankedRun(name, seeds, RMSE) for name, seeds in (("a", low), ("b", high)))
        assert a.ahead_of(b) == (p < 0.025), (gap, p)
        assert not b.ahead_of(a)
        assert leader([b, a]) is (a if p < 0.025 else None)
    assert lead([b, a]).startswith("a leads with the lowest rmse, 0.5000 ± 0.0100")
    near = [RankedRun(name, (score,), RMSE) for name, score in (("c", 0.6), ("d", 0.5))]
    assert (
        lead(near)
        == "d has the lowest rmse, 0.5000 (1 seed: differences between methods may be due to chance)."
    )


def test_different_scores_are_never_ranked_together(tmp_path: Path) -> None:
    """One method that was judged both ways is two; each board has a leader and a target of its
    own."""
    runs = [*compared(tmp_path, RMSE), *compared(tmp_path, MIOU)]
    runs.append(write_run(tmp_path / "old", rounds=4, done=4, evaluate={"every": 1, "last": 2}))
    found = collect(runs)
    assert found["problems"] == []
    assert [board["headline"]["name"] for board in found["boards"]] == ["rmse", "miou", "accuracy"]
    assert [(method["name"], method["board"]) for method in found["methods"]] == [
        *((name, 0) for name in METHODS),
        *((name, 1) for name in METHODS),
        ("fedavg()", 2),
    ]
    assert [board["ahead"] for board in found["boards"]] == [1, 2, None]
    assert [board["target"] for board in found["boards"]] == [0.655, 0.655, None]
    titles = [board["title"] for board in found["boards"]]
    assert titles == [
        f"digits(lda(0)), classification(), by {score}" for score in ("rmse", "mIoU", "accuracy")
    ]
    assert all(title in found["text"] for title in titles)
    with pytest.raises(
        SettingError, match=r"one target cannot serve all runs: .* \(rmse and mIoU and accuracy\)"
    ):
        collect(runs, target="50%")


def test_a_seed_that_goes_on_does_not_swap_methods(tmp_path: Path) -> None:
    """The first method's first seed has not ended, so its summary comes from one that is read
    later."""
    write_headline_run(tmp_path / "a", RMSE, [0.9], method="fedavg()", status="running")
    write_headline_run(tmp_path / "b", RMSE, [0.8], method="fedprox()")
    write_headline_run(tmp_path / "c", RMSE, [0.7], method="fedavg()", seed=1)
    found = collect([tmp_path / name for name in "abc"])
    assert [(one["name"], one["score"]) for one in found["methods"]] == [
        ("fedavg()", 0.7),
        ("fedprox()", 0.8),
    ]


@pytest.mark.parametrize(("target", "rounds"), [("0.6", ["4", "1"]), ("-1", ["-", "-"])])
def test_the_target_of_a_report(tmp_path: Path, target: str, rounds: list[str]) -> None:
    """0.9, 0.8, 0.7, 0.6 and half of it."""
    runs = [
        write_headline_run(
            tmp_path / method, RMSE, [s / (1 + place) for s in (0.9, 0.8, 0.7, 0.6)], method=method
        )
        for place, method in enumerate(METHODS)
    ]
    out = tmp_path / "report.html"
    assert main(["report", *map(str, runs), "--out", str(out), f"--target={target}"]) == 0
    heads, _, *lines = collect(runs, target=target)["text"].split("\n\n")[0].splitlines()
    assert f"rounds to {target}" in heads
    assert [line[heads.index(f"rounds to {target}") :].split()[0] for line in lines] == rounds
    assert main(["report", *map(str, runs), "--out", str(out), "--target", "90%"]) == 2


def test_figures_of_a_score(tmp_path: Path) -> None:
    """One of each score and of the losses that belong to it."""
    pytest.importorskip("matplotlib")
    runs = [*compared(tmp_path, RMSE), *compared(tmp_path, MIOU)]
    write_report(runs, tmp_path / "page.html", figures=tmp_path / "figures", formats=["svg"])
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "rmse.svg",
        "loss.svg",
        "train_loss.svg",
        "miou-2.svg",
        "loss-2.svg",
        "train_loss-2.svg",
    }
    assert ">mIoU, %<" in (tmp_path / "figures" / "miou-2.svg").read_text()
    assert ">rmse<" in (tmp_path / "figures" / "rmse.svg").read_text()
