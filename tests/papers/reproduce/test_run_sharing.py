"""One run for several cells."""

from __future__ import annotations

import pytest

from fedflat.experiments.experiment import Experiment
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.run_sharing import Job, share

SETTINGS = {
    "on": "digits(lda(0), clients=10)",
    "model": "mlp()",
    "rounds": 4,
    "clients_per_round": 2,
}


def made(*methods: str, **more: object) -> list[tuple[TableCell, Experiment]]:
    cells = [
        TableCell(
            name=f"t/c{place}", arguments={**SETTINGS, "method": method, **more}, reported=None
        )
        for place, method in enumerate(methods)
    ]
    return [(cell, cell.experiment(0)) for cell in cells]


def runs(*methods: str) -> list[str]:
    jobs, _ = share(made(*methods), [])
    return [repr(job.experiment.method) for job in jobs]


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        (["fedavg()", "fedavg() + wima(window=5)"], ["fedavg() + wima(window=5)"]),
        (["fedavg() + wima(window=5)", "fedavg()"], ["fedavg() + wima(window=5)"]),
        (["fedavg() + wima()", "fedavg() + ema()"], ["fedavg() + wima() + ema()"]),
        (
            ["fedavg() + wima(window=5)", "fedavg() + wima()"],
            ["fedavg() + wima(window=5)", "fedavg() + wima()"],
        ),
        (["fedavg()", "fedavg() + swa()"], ["fedavg()", "fedavg() + swa()"]),
        (["fedavg()", "fedavg() + swa(cycle_lr=False)"], ["fedavg() + swa(cycle_lr=False)"]),
        (["fedavg() + swa()", "fedavg() + swa() + wima()"], ["fedavg() + swa() + wima()"]),
        (["fedavg()", "fedsam(rho=0.1) + wima()"], ["fedavg()", "fedsam(rho=0.1) + wima()"]),
        (["sam(rho=0.1)", "fedsam(rho=0.1) + wima()"], ["sam(rho=0.1) + wima()"]),
    ],
)
def test_runs_that_differ_only_by_averages_are_one(methods: list[str], expected: list[str]) -> None:
    assert runs(*methods) == expected


def test_another_seed_or_setting_is_another_run() -> None:
    plain = made("fedavg()")
    jobs, folders = share(
        [*plain, (plain[0][0], plain[0][0].experiment(1)), *made("fedavg() + wima()", lr=0.3)], []
    )
    assert len(jobs) == 3
    assert folders == ["c0/seed-0", "c0/seed-1", "c0-2/seed-0"]


def test_a_run_that_was_begun_is_used_and_never_changed() -> None:
    jobs, _ = share(made("fedavg() + wima()"), [])
    after, folders = share(made("fedavg()", "fedavg() + ema()"), jobs)
    assert after[0] == jobs[0]
    assert folders == ["c0/seed-0", "c1/seed-0"]
    assert repr(after[1].experiment.method) == "fedavg() + ema()"


def test_everything_a_run_provides() -> None:
    ((_, both),) = made("fedavg() + wima() + ema()")
    for method, expected in (
        ("fedavg()", True),
        ("fedavg() + ema()", True),
        ("fedavg() + ema(gamma=0.5)", False),
    ):
        ((_, wanted),) = made(method)
        assert Job("x", both).provides(wanted) is expected
