"""How often a run is evaluated by default, on how many examples, and what it says about the
time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from fedflat.data.federation import PartitionedFederation
from fedflat.data.sets.in_memory import Tensors
from fedflat.errors import SettingError
from fedflat.experiments.eval_models import drawn, with_fewer_tests
from fedflat.experiments.evaluation_schedule import SHARE, UNNOTICED, EvaluationSchedule
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_cost import FORWARD, RunCost, affordable
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.study import Reporter

DIGITS = "digits(lda(0), clients=10)"
QUICK: dict[str, Any] = {"clients_per_round": 2, "threads": 1, "quiet": True}


def large_test(train: int = 40, test: int = 20_000) -> Tensors:
    """Data with a few training examples and a large test set."""
    rng = torch.Generator().manual_seed(0)
    x, y = torch.rand(train + test, 3, 8, 8, generator=rng), torch.arange(train + test) % 4
    return ff.tensors(x[:train], y[:train], x[train:], y[train:], ff.iid(), clients=4)


@pytest.mark.parametrize("rounds", [1, 2, 7, 30, 100, 999, 20_000])
@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.3, 1.0, 3.0, 40.0])
def test_evaluations_take_at_most_their_share(rounds: int, ratio: float) -> None:
    """By the estimate; one evaluation is always made, and a second of them does not count."""
    round, usual = 100.0, EvaluationSchedule.of(rounds, {})
    fewer = usual.affordable(rounds, round, ratio * round)
    count = len(fewer.rounds(rounds))
    training, evaluation = rounds * round, count * ratio * round
    assert rounds - 1 in fewer.rounds(rounds)
    assert count == 1 or evaluation <= SHARE * (training + evaluation) + 1e-6
    assert count <= len(usual.rounds(rounds))
    assert not fewer.defaults


def test_short_evaluations_do_not_count() -> None:
    """They are made as usual, even if they take most of the time."""
    usual = EvaluationSchedule.of(10, {})
    assert usual.affordable(10, 1e-4, UNNOTICED / 10) == usual
    assert usual.affordable(10, 1e-4, UNNOTICED / 9.9) != usual


def test_what_was_given_is_kept() -> None:
    """Only the other value is changed."""
    given = EvaluationSchedule.of(100, {"every": 1}).affordable(100, 1.0, 10.0)
    assert (given.every, given.last) == (1, 1)
    given = EvaluationSchedule.of(100, {"last": 30}).affordable(100, 1.0, 10.0)
    assert (given.every, given.last) == (100, 30)
    given = EvaluationSchedule.of(100, {"last": 3, "every": 4}).affordable(100, 1.0, 10.0)
    assert (given.every, given.last) == (4, 3)


def test_a_patience_is_not_longer_than_the_time_between_evaluations() -> None:
    """Otherwise a run would end after each evaluation that does not improve."""
    given = {"patience": 20, "select_by": "validation"}
    schedule = EvaluationSchedule.of(100, given).affordable(100, 1.0, 30.0)
    assert (schedule.every, schedule.last) == (20, 1)


def test_the_cost_is_counted() -> None:
    """A forward pass is a third of a gradient; a batch of evaluation has up to 256 examples."""
    on = large_test(train=400, test=512)
    common = {"rounds": 3, "clients_per_round": 2, "model": "logistic()"}
    setup = prepare(ff.experiment("fedavg", on, local_epochs=1, batch_size=100, **common))
    cost = RunCost.of(setup)
    # a round: two clients with a batch of 100 examples each; an evaluation: two batches of 256
    assert isinstance(setup.fed, PartitionedFederation)
    assert setup.fed.sizes() == [100] * 4
    doubled = RunCost.of(
        prepare(ff.experiment("fedavg", on, local_epochs=2, batch_size=100, **common))
    )
    assert doubled.round == pytest.approx(2 * cost.round)
    assert doubled.evaluation == cost.evaluation
    half = RunCost.of(prepare(ff.experiment("fedavg", on, eval_examples=256, **common)))
    assert half.evaluation == pytest.approx(cost.evaluation / 2)
    whole = RunCost.of(
        prepare(ff.experiment("fedavg", large_test(2048, 512), batch_size=256, **common))
    )
    assert whole.evaluation == cost.evaluation
    # two clients with two gradients of 256 examples each
    assert whole.round == pytest.approx(2 * whole.evaluation / FORWARD)
    averaged = RunCost.of(prepare(ff.experiment("fedavg + swa()", on, **common)))
    assert averaged.evaluation == pytest.approx(2 * cost.evaluation)


def test_runs_of_a_study_are_evaluated_in_the_same_rounds() -> None:
    """As rarely as the one that can afford least."""
    each = [ff.experiment(name, DIGITS, rounds=50) for name in ("fedavg", "fedsam", "fedprox")]
    each.append(replace(each[0], rounds=20))
    costs = [RunCost(1.0, 2.0), RunCost(2.0, 1.0), RunCost(1.5, 3.0), RunCost(10.0, 0.1)]
    made = affordable(each, costs)
    alone = EvaluationSchedule.of(50, {}).affordable(50, 1.0, 3.0)
    assert [one.evaluate for one in made[:3]] == [alone] * 3
    assert made[3].evaluate == each[3].evaluate


def test_evaluations_change_no_trained_number(tmp_path: Path) -> None:
    """A run that is evaluated once, or on few examples, ends with the same bits."""
    for method in ("feddyn + asam + swa()", "scaffold", "fedgloss"):
        runs = [
            ff.run(method, DIGITS, rounds=6, seed=1, **QUICK, **more)
            for more in (
                {"eval_every": 1},
                {"eval_every": 6, "eval_last": 1},
                {"eval_every": 2, "eval_examples": 7},
            )
        ]
        first = runs[0].module().state_dict()
        for other in runs[1:]:
            for name, tensor in other.module().state_dict().items():
                assert torch.equal(tensor, first[name])
        assert [len(run.rows) for run in runs] == [6, 1, 3]


def test_a_run_thins_out_its_evaluations(tmp_path: Path) -> None:
    """The folder records what was done; the note says how long it is thought to take."""
    notes: list[str] = []
    on = large_test()
    settings = {**QUICK, "model": "mlp(hidden=[400])", "local_steps": 1, "rounds": 20}
    cost = RunCost.of(prepare(ff.experiment("fedavg", on, **_without_execution(settings))))
    usual = EvaluationSchedule.of(20, {})
    fewer = usual.affordable(20, cost.round, cost.evaluation)
    assert usual.rounds(20) > fewer.rounds(20)
    made = [t + 1 for t in sorted(fewer.rounds(20))]
    result = ff.run("fedavg", on, **settings, reporter=Reporter(note=notes.append))
    assert [row["round"] for row in result.rows] == made
    assert f", {len(made)} evaluations " in notes[-1]
    every = ff.run("fedavg", on, **settings, eval_every=6, eval_last=2, eval_examples=50)
    assert [row["round"] for row in every.rows] == [6, 12, 18, 19, 20]
    both = ff.compare(["fedavg", "fedsam"], on, **settings, out=tmp_path / "study")
    assert [[row["round"] for row in one.rows] for one in both] == [made, made]


def _without_execution(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in ("threads", "quiet")}


def test_time_is_recorded(tmp_path: Path) -> None:
    """Training, evaluation and everything, also in the folder and after it is read again."""
    on = "digits(lda(0), clients=10)"
    result = ff.run("fedavg", on, rounds=3, out=tmp_path / "run", **QUICK)
    ledger = result.ledger
    assert 0 < ledger.evaluation < ledger.seconds
    assert ledger.training + ledger.evaluation <= ledger.seconds
    assert Result.read(tmp_path / "run").ledger.evaluation == ledger.evaluation
    assert read_record(tmp_path / "run").experiment.evaluate["every"] == 1
    assert result.rows[0]["evaluation"] < result.rows[-1]["evaluation"]


def test_some_examples_are_always_the_same() -> None:
    """Each test set has at most so many, in their order, without repetition."""
    fed = prepare(ff.experiment("fedavg", DIGITS, rounds=1)).fed
    few = with_fewer_tests(fed, 20)
    assert len(few.test) == 20
    assert torch.equal(few.test.index, with_fewer_tests(fed, 20).test.index)
    assert (few.test.index.diff() > 0).all()
    assert set(few.test.index.tolist()) < set(fed.test.index.tolist())
    assert drawn(fed.test, len(fed.test)) is fed.test
    assert with_fewer_tests(fed, None) is fed


def test_scores_are_those_of_the_examples() -> None:
    """Computed again by hand on the same examples; the table says how many they are."""
    result = ff.run("fedavg", DIGITS, rounds=2, eval_examples=30, **QUICK)
    fed = prepare(ff.experiment("fedavg", DIGITS, rounds=2)).fed
    data = drawn(fed.test, 30)
    batch = data.batch(torch.arange(30), torch.float32)
    with torch.no_grad():
        right = result.module()(batch.inputs).argmax(1) == batch.targets
    assert result.rows[-1]["accuracy"] == pytest.approx(float(right.double().mean()))
    assert "on 30 random examples of the test set" in str(ff.Results([result]).table())


def test_what_needs_all_test_examples_is_refused() -> None:
    """Recall depends on the number of images that are compared."""
    with pytest.raises(SettingError, match="compares test examples with each other"):
        ff.run("fedavg", DIGITS, rounds=1, eval_examples=5, task="retrieval()", quiet=True)
