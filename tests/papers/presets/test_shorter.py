"""Shorter runs of the same shape."""

from __future__ import annotations

import pytest

from fedflat.core.schedules import at
from fedflat.errors import SettingError
from fedflat.experiments.api import experiment
from fedflat.papers.presets import every, find
from fedflat.papers.presets.stretch import COUNTED, stretch, stretch_text, unfinished
from fedflat.registry.specs import parse, registered

TEXTS = [
    ("fedavg()", "fedavg()"),
    ("fedgloss(rho_s=0.15, rho_l=0.15, T_s=2000)", "fedgloss(rho_s=0.15, rho_l=0.15, T_s=500)"),
    ("fedgloss(rho_s=0.15)", "fedgloss(rho_s=0.15)"),
    (
        "naive_fedgloss(rho_l=warmup(0.001, 0.2, 40))",
        "naive_fedgloss(rho_l=warmup(0.001, 0.2, 10))",
    ),
    ("fedavg() + swa(cycle=20)", "fedavg() + swa(cycle=5)"),
    ("fedavg + swa", "fedavg + swa(cycle=2)"),
    ("swa(0.5, 8)", "swa(0.5, 2)"),
    ("swa(start=40)", "swa(start=10, cycle=2)"),
    ("fedavg() + wima()", "fedavg() + wima(window=25)"),
    (
        "chain(feddyn(alpha=0.1), sam(rho=cosine(1, 0.1, 8)))",
        "chain(feddyn(alpha=0.1), sam(rho=cosine(1, 0.1, 2)))",
    ),
    ("cyclic(0.1, 0.01, 2)", "cyclic(0.1, 0.01, 1)"),
    ("steps([0, 8, 9], [1.0, 0.5, 0.1])", "steps([0, 2], [1.0, 0.1])"),
    ("decay(0.1, 0.5)", "decay(0.1, 0.0625)"),
]


@pytest.mark.parametrize(("text", "quarter"), TEXTS, ids=[text for text, _ in TEXTS])
def test_a_quarter_of_the_rounds(text: str, quarter: str) -> None:
    assert stretch_text(text, 0.25) == quarter
    kind = "schedule" if text.startswith(("cyclic", "steps", "decay")) else "method"
    assert parse(quarter, kind) is not None


SHAPES = [
    "warmup(0.001, 0.2, 40)",
    "cosine(1, 0.1, 60)",
    "steps([0, 20, 60], [1.0, 0.5, 0.1])",
    "decay(0.1, 0.998)",
]


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("share", [0.05, 0.5, 3.0])
def test_the_shape_is_kept(text: str, share: float) -> None:
    """At every share of the run the value is the same, where both have a round there."""
    whole, short = parse(text, "schedule"), parse(stretch_text(text, share), "schedule")
    for tenth in range(10):
        t = tenth * 20
        assert at(short, round(t * share)) == pytest.approx(at(whole, t), rel=1e-6)


def test_all_that_count_rounds_are_known() -> None:
    words = {"rounds", "cycle", "window", "T_s", "start", "t_start"}
    found = {
        entry.name for kind in ("method", "schedule") for entry in registered(kind)
        if words & set(entry.signature.parameters)
    }  # fmt: skip
    assert found == set(COUNTED) - {"decay"}


def test_the_rest_of_a_run() -> None:
    long = find("fedgloss/cifar10-cnn-alpha0-repo").arguments() | {
        "eval_last": 100,
        "momentum": 0.5,
        "clip": None,
    }
    short = stretch(long, 500)
    changed = {name: value for name, value in short.items() if value != long[name]}
    assert set(changed) == {"rounds", "method", "eval_every", "eval_last"}
    assert "T_s=100" in changed["method"]
    assert (short["eval_every"], short["eval_last"]) == (5, 50)
    assert stretch(long | {"eval_last": 1}, 500)["eval_last"] == 1
    assert (
        stretch(long | {"lr": parse("decay(0.1, 0.5)", "schedule")}, 5_000)["lr"]
        == "decay(0.1, 0.25)"
    )
    assert stretch(long, long["rounds"]) == long
    assert (
        stretch(find("fedgloss/cifar10-cnn-alpha0").arguments(), 10_000)["eval_last"] == 100
    )  # as the paper has it
    with pytest.raises(
        SettingError, match="stretch: rounds must be a whole number of at least 1, found 0"
    ):
        stretch(long, 0)


@pytest.mark.parametrize(
    ("settings", "late"),
    [
        ({"method": "fedgloss(rho_s=0.1, rho_l=0.1, T_s=51)"}, ["T_s=51"]),
        ({"method": "fedgloss(rho_s=0.1, rho_l=0.1, T_s=50)"}, []),
        ({"method": "fedsam(rho=warmup(0.1, 0.2, 1500))"}, ["the warm-up over 1,500 rounds"]),
        ({"method": "fedavg", "lr": "cosine(0.1, 0.0, 60)"}, ["the cosine over 60 rounds"]),
        (
            {"method": "fedavg", "lr": 0.1, "clip": "steps([0, 50], [1, 2])"},
            ["the step in round 50"],
        ),
        ({"method": "fedavg() + swa(cycle=20)"}, ["SWA's first cycle of 20 rounds"]),
        ({"method": "fedavg() + swa(cycle=12)", "momentum": "decay(0.9, 0.5)"}, []),
        ({"method": "fedavg() + swa(start=41)"}, ["SWA's first cycle of 10 rounds"]),
    ],
)
def test_what_is_not_finished(settings: dict[str, object], late: list[str]) -> None:
    """In 50 rounds; SWA starts after 37 of them."""
    assert unfinished(settings | {"rounds": 50}) == late


def test_every_preset() -> None:
    """Nothing is unfinished in the papers' rounds, nor in a tenth of them when stretched; and it is
    still a run."""
    for preset in every():
        output = preset.arguments()
        assert unfinished(output) == []
        short = stretch(output, output["rounds"] // 10)
        assert unfinished(short) == [], preset.name
        assert parse(short["method"], "method") is not None


def test_as_an_experiment() -> None:
    output = find("man/cifar10-iid-fedspeed").arguments() | {
        "on": "digits(iid(), clients=20)",
        "model": "logistic",
    }
    exp = experiment(**stretch(output, 50))
    assert exp.lr(49) == pytest.approx(0.1 * 0.998**490)


def test_teachers_keep_their_share() -> None:
    output = {"method": "ladd('all', omega=5, t_start=200) + wima(50)", "rounds": 300}
    assert stretch(output, 30)["method"] == "ladd('all', omega=1, t_start=20) + wima(5)"
    assert (
        stretch({"method": "ladd(t_start=None)", "rounds": 300}, 30)["method"]
        == "ladd(t_start=None)"
    )
    assert stretch({"method": "self_training()", "rounds": 300}, 30)["method"] == "self_training()"
    assert unfinished({**output, "rounds": 100}) == ["the mean of teachers from round 200 on"]
