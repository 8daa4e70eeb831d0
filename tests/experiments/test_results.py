"""Results as papers define them."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedflat as ff
from experiments.small import SIZES, experiment
from fedflat.client.local import LocalTraining
from fedflat.errors import SettingError
from fedflat.experiments.evaluator import Scores
from fedflat.experiments.results.results import Result, Results
from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.results.summary import summarise
from fedflat.experiments.results.tables import table
from fedflat.server.client_selection import ClientSampler
from fedflat.server.ledger import Ledger


def result(
    accuracies: dict[int, float],
    *,
    method: str = "fedavg()",
    rounds: int = 10,
    last: int = 3,
    seed: int = 0,
    **more: Any,
) -> Result:
    """A run with these accuracies after these rounds; each round costs 100 bytes down and 10 up."""
    rows = [
        {"round": t, "accuracy": a, "loss": 1 - a, "down": 100 * t, "up": 10 * t}
        for t, a in accuracies.items()
    ]
    ledger = Ledger(down=100 * rounds, up=10 * rounds, samples=500, training=2.0, seconds=3.0)
    return Result(method, seed, more.pop("status", "done"), rounds, last, rows, ledger, **more)


CURVE = {2: 0.2, 4: 0.7, 6: 0.5, 8: 0.6, 9: 0.8, 10: 0.7}


def test_the_mean_of_the_last_rounds() -> None:
    """Three rounds count: 8, 9 and 10."""
    assert result(CURVE).final() == pytest.approx((0.6 + 0.8 + 0.7) / 3)
    assert result(CURVE).final("loss") == pytest.approx((0.4 + 0.2 + 0.3) / 3)
    assert result(CURVE, last=1).final() == 0.7
    assert result(CURVE, last=100).final() == pytest.approx(sum(CURVE.values()) / 6)
    assert math.isnan(result({2: 0.5}).final())
    assert math.isnan(result(CURVE).final("clients"))


def test_the_last_and_the_best_beside_it() -> None:
    assert (result(CURVE).latest(), result(CURVE).best()) == (0.7, 0.8)
    assert result(CURVE).latest("loss") == pytest.approx(0.3)
    assert math.isnan(result({}).latest())
    (summary,) = summarise([result(CURVE), result({9: 0.2, 10: 0.1}, seed=1)], None)
    assert (summary.latest, summary.best) == (pytest.approx(0.4), pytest.approx(0.5))


@pytest.mark.parametrize(
    ("rounds", "counts"), [(1, 1), (10, 1), (11, 2), (100, 10), (999, 100), (20_000, 100)]
)
def test_a_short_run_is_judged_by_its_end(rounds: int, counts: int) -> None:
    """The mean over the last tenth of the rounds, at most a hundred; more or fewer if somebody says
    so."""
    assert ff.experiment("fedavg", "digits", rounds=rounds).evaluate.last == counts
    assert ff.experiment("fedavg", "digits", rounds=rounds, eval_last=7).evaluate.last == 7


def test_the_first_round_that_reaches_a_target() -> None:
    """The first, though the curve falls again; reaching it exactly is enough."""
    row = result(CURVE).reached(0.7)
    assert row is not None
    assert row["round"] == 4
    assert result(CURVE).reached(0.75) == result(CURVE).rows[4]
    assert result(CURVE).reached(0.81) is None


def test_speed() -> None:
    assert result(CURVE).speed == 250.0
    assert math.isnan(Result("m", 0, "done", 1, 1, [], Ledger()).speed)


def test_a_method_over_its_seeds() -> None:
    curves = [{8: 0.5, 10: 0.6}, {6: 0.5, 8: 0.7, 10: 0.8}, {4: 0.5, 10: 0.9}]
    runs = [result(curve, seed=seed) for seed, curve in enumerate(curves)]
    other = result({10: 0.1}, method="fedsam(rho=0.05)")
    ours, theirs = summarise([*runs, other], target=0.5)
    finals = [0.55, 0.75, 0.9]
    assert ours.method == "fedavg()"
    assert ours.seeds == 3
    assert ours.score == pytest.approx(np.mean(finals))
    assert ours.spread == pytest.approx(np.std(finals, ddof=1))  # of a sample, as papers give it
    assert ours.loss == pytest.approx(np.mean([0.45, 0.25, 0.1]))
    assert ours.rounds_to_target == pytest.approx((8 + 6 + 4) / 3)
    assert ours.bytes_to_target == pytest.approx(110 * (8 + 6 + 4) / 3)
    assert ours.bytes == 1100
    assert ours.diverged == 0
    assert theirs.seeds == 1
    assert math.isnan(theirs.spread)
    assert theirs.rounds_to_target is None


def test_a_target_that_one_seed_misses_is_not_reached() -> None:
    (summary,) = summarise([result({10: 0.9}), result({10: 0.4}, seed=1)], target=0.5)
    assert summary.rounds_to_target is None
    assert summary.bytes_to_target is None
    (summary,) = summarise([result({10: 0.9})], target=None)
    assert summary.rounds_to_target is None


def test_divergence() -> None:
    assert not result(CURVE).diverged
    assert result(CURVE, status="diverged").diverged
    assert result({10: math.nan}).diverged
    assert not Result("m", 0, "done", 1, 1, [], Ledger()).diverged
    stopped = result({2: 0.2}, status="diverged")
    (summary,) = summarise([stopped, result(CURVE, seed=1), result(CURVE, seed=2)], target=0.7)
    assert summary.diverged == 1
    assert math.isnan(summary.score)
    assert math.isnan(summary.spread)
    assert summary.rounds_to_target is None


@pytest.mark.parametrize(
    ("method", "down", "up"),
    [
        ("fedavg", 1, 1),
        ("naive_fedgloss(rho_s=0.1)", 2, 2),
        ("feddyn(alpha=0.1)", 1, 1),
        ("centralised", 0, 0),
    ],
)
def test_bytes_are_those_sent(method: str, down: int, up: int) -> None:
    """An mlp of 4 - 5 - 3 has 43 numbers of 4 bytes; two clients, each round."""
    run = ff.train(experiment(method))
    size = 4 * (4 * 5 + 5 + 5 * 3 + 3)
    assert [row["down"] for row in run.rows] == [2 * down * size * t for t in range(1, 7)]
    assert [row["up"] for row in run.rows] == [2 * up * size * t for t in range(1, 7)]
    assert (run.ledger.down, run.ledger.up) == (run.rows[-1]["down"], run.rows[-1]["up"])


def test_bytes_of_wide_numbers_and_odd_cohorts() -> None:
    cohorts = [[0], [1, 2, 3], [4, 0]]
    run = ff.train(experiment(dtype="float64", rounds=3, sampler=ClientSampler(cohorts=cohorts)))
    assert [row["down"] for row in run.rows] == [43 * 8 * n for n in (1, 4, 6)]


def test_samples_are_those_seen() -> None:
    cohorts = [[0], [1, 2, 3], [4, 0]]
    exp = experiment(
        rounds=3,
        sampler=ClientSampler(cohorts=cohorts),
        local=LocalTraining(epochs=2, batch_size=4),
    )
    seen = np.cumsum([2 * sum(SIZES[k] for k in cohort) for cohort in cohorts])
    assert [row["samples"] for row in ff.train(exp).rows] == seen.tolist()


def test_what_a_row_holds() -> None:
    """The scores of the last model average count; all are there."""
    row = ff.train(experiment("fedavg + ema() + wima(window=2)", rounds=1)).rows[0]
    scores: dict[str, Scores] = row["models"]
    assert list(scores) == ["server", *sorted(set(scores) - {"server"}, key=list(scores).index)]
    assert set(scores) == {"server", "ema", "wima"}
    assert row["model"] == list(scores)[-1]
    assert row["accuracy"] == scores[row["model"]]["accuracy"]
    assert row["loss"] == scores[row["model"]]["loss"]
    assert row["seconds"] >= row["training"] > 0


def test_the_best_round_of_a_measurement() -> None:
    runs = [result(CURVE, seed=0), result(CURVE, seed=1)]
    for run, values in zip(runs, ([0.3, 0.5, 0.4], [0.6, 0.2, 0.1]), strict=True):
        for row, value in zip(run.rows, values, strict=False):
            row["personal"] = value
    assert [run.best("personal") for run in runs] == [0.5, 0.6]
    assert math.isnan(runs[0].best("nothing"))
    (summary,) = summarise(runs, None)
    assert summary.personal == pytest.approx(0.55)
    assert summary.personal_spread == pytest.approx(np.std([0.5, 0.6], ddof=1))


def test_a_result_prints_as_one_line() -> None:
    output = repr(result(CURVE, method="fedsam(rho=0.05)", seed=2))
    assert output == (
        "<Result of fedsam(rho=0.05), seed 2: accuracy 70.00 %, last 70.00, best 80.00; done, evaluated at 10 of 10>"
    )
    assert "accuracy - %, last -, best -; done, evaluated at 0 of 10" in repr(result({}))


def test_results_print_as_their_table() -> None:
    """And show as one in a notebook, where a method's text cannot be taken for markup."""
    runs = Results([result(CURVE), result(CURVE, method="sam<b>()")])
    assert repr(runs) == table(summarise(runs, None), None, 3)
    html = runs._repr_html_()
    assert html.count("<tr>") == 3
    assert "<td>sam&lt;b&gt;()</td><td>70.00</td><td>70.00</td><td>80.00</td>" in html
    assert result(CURVE)._repr_html_().count("<tr>") == 2
    assert repr(Results()) == Results()._repr_html_() == "no results"


def test_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    runs = Results(
        [
            ff.run("fedavg + ema()", on="digits", rounds=3, seed=s, threads=1, quiet=True)
            for s in (4, 5)
        ]
    )
    frame = runs.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["round"].tolist() == [1, 2, 3, 1, 2, 3]
    assert frame["seed"].tolist() == [4, 4, 4, 5, 5, 5]
    assert frame["accuracy"].tolist() == [row["accuracy"] for run in runs for row in run.rows]
    assert frame["models.ema.loss"].tolist() == [
        row["models"]["ema"]["loss"] for run in runs for row in run.rows
    ]
    assert runs[1].frame().equals(frame[3:].reset_index(drop=True))


def test_a_frame_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        SettingError, match=r"pandas is not installed here. Install it .* or take .* result.rows"
    ):
        result(CURVE).frame()


def timed(run: Result, each: float) -> Result:
    """The same run by a clock, each of whose rounds takes so long."""
    rows = [{**row, "clock": each * row["round"]} for row in run.rows]
    return replace(run, rows=rows, ledger=replace(run.ledger, clock=each * run.rounds))


def test_simulated_seconds_to_a_target() -> None:
    """Reached in round 4 by the one seed, in round 9 by the other; two and four seconds a round."""
    runs = [timed(result(CURVE), 2.0), timed(result({8: 0.6, 9: 0.7, 10: 0.8}, seed=1), 4.0)]
    (summary,) = summarise(runs, 0.7)
    assert (summary.clock, summary.clock_to_target) == ((20 + 40) / 2, (8 + 36) / 2)
    heads, _, row, *_ = table([summary], 0.7, 3, "markdown").splitlines()
    assert "| simulated to 70.0 % |" in heads
    assert "| simulated in all |" in heads
    assert "| 22.0 s |" in row
    assert "| 30.0 s |" in row


def test_runs_without_a_clock_have_no_simulated_seconds() -> None:
    with_clock, without = timed(result(CURVE), 2.0), result(CURVE, method="fedsam(rho=0.1)")
    one, other = summarise([with_clock, without], 0.7)
    assert one.clock_to_target == 8
    assert (math.isnan(other.clock), other.clock_to_target) == (True, None)
    assert "simulated" not in table([other], 0.7, 3)
    assert " - " in table([one, other], 0.7, 3).splitlines()[-4]
    assert "by the run's clock" in table([one, other], 0.7, 3)


def test_one_method_on_two_data_sets_is_not_two_seeds() -> None:
    runs = Results(
        result(CURVE, seed=i, scenario=Scenario(on))
        for i, on in enumerate(("digits()", "cifar10()"))
    )
    runs.append(result(CURVE, method="fedprox()", scenario=Scenario("cifar10()")))
    summaries = summarise(runs, None)
    assert [(one.method, one.scenario.on, one.seeds) for one in summaries] == [
        ("fedavg()", "digits()", 1),
        ("fedavg()", "cifar10()", 1),
        ("fedprox()", "cifar10()", 1),
    ]
    assert runs.target_of_first() is None
    assert "they are not compared" in repr(runs)
