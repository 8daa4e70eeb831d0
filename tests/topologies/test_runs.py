"""Runs with a topology: stopped, killed and resumed, in every executor, on the command line, and
from a plugin."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import fedflat as ff
from experiments.killing import newest
from experiments.small import (
    begin,
    experiment,
    final,
    go_on,
    kill_when_stopped,
    rows,
    start,
    timeless,
)
from experiments.stopping import LOCAL_TRAINING
from fedflat.cli import main
from fedflat.core.failures import ClientFailure
from fedflat.errors import NotFinite, SettingError
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.experiment import from_json
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler

RUNS = {
    "chains(groups=2)": "fedavgm() + wima(2)",
    "chains(cut=2)": "fedsam(0.1)",
    "clusters(2)": "scaffold()",
    "clusters(2, shared='features')": "fedadam(lr=0.1) + ema()",
    "hierarchy(2, every=2)": "fedgloss(0.05, admm=False)",
}


def settings(topology: str, **more: Any) -> dict[str, Any]:
    clients = 4 if topology.startswith("chains(cut") else 2
    return {"topology": topology, "sampler": ClientSampler(clients=clients), **more}


@pytest.mark.parametrize("topology", RUNS)
def test_a_run_that_was_stopped_ends_with_the_same_bits(topology: str, tmp_path: Path) -> None:
    exp = experiment(RUNS[topology], **settings(topology))
    whole = begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "part", stop=3)
    part = go_on(exp, tmp_path / "part")
    assert final(tmp_path / "part") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "part")) == timeless(rows(tmp_path / "whole"))
    assert part.status == whole.status == "done"


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["chains(groups=2)", "clusters(2, shared='features')"])
def test_workers_give_the_same_bits_and_stacks_the_same_numbers(topology: str) -> None:
    exp = experiment(RUNS[topology], **settings(topology, dtype="float64"))
    setup = prepare(exp)
    alone, spread, stacked = (
        train(setup, executor=e) for e in (InProcess(threads=1), Workers(2), Stacked())
    )
    assert timeless(alone.rows) == timeless(spread.rows)
    for one, other in zip(alone.rows, stacked.rows, strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-11)
        assert (other["down"], other["up"], other.get("c2c")) == (
            one["down"],
            one["up"],
            one.get("c2c"),
        )


@pytest.mark.parametrize(
    ("method", "requests"),
    [
        ("fedseq(groups=4, passes=2)", 57),
        pytest.param("fedseq2par(growth=linear(0.2, b=2))", 51, marks=pytest.mark.slow),
    ],
)
def test_kill_9_in_the_middle_of_chains(method: str, requests: int, tmp_path: Path) -> None:
    """A round is taken over whole: what was under way is made again, and the bytes at the end are
    the same."""
    words = [
        "run",
        method,
        "--on",
        "digits(lda(0), clients=20)",
        "--rounds",
        "10",
        "--clients-per-round",
        "8",
        "--model",
        "logistic",
        "--eval-every",
        "8",
        "--quiet",
        "--checkpoint-every",
        "0",
        "--threads",
        "1",
    ]
    part, whole = tmp_path / "part", tmp_path / "whole"
    kill_when_stopped(
        start(
            *words,
            "--out",
            str(part),
            start_new_session=True,
            stop_after=(LOCAL_TRAINING, requests),
        )
    )
    assert 3 < newest(part) < 10
    for more in (["resume", str(part), "--quiet"], [*words, "--out", str(whole)]):
        assert main(more) == 0
    assert final(part) == final(whole)
    assert timeless(rows(part)) == timeless(rows(whole))


def test_what_is_sent_in_chains_and_from_client_to_client() -> None:
    """Groups of 3 and 2: a round is C N_S + sum K models in all; the server sends and gets one for
    each chain."""
    on = ff.digits(ff.iid(), clients=5)
    exp = experiment(
        "fedavg", on=on, topology="chains(groups=given_groups([[0, 1, 2], [3, 4]]))", rounds=3
    )
    setup = prepare(exp)
    ledger, one = train(setup).ledger, 4 * setup.job.learner.flat.layout.dim
    assert (ledger.down, ledger.up, ledger.c2c) == (3 * 2 * one, 3 * 2 * one, 3 * 3 * one)
    assert ledger.sent == 3 * (2 + 5 + 0) * one
    assert ledger.samples == 3 * sum(setup.fed.sizes())


@pytest.mark.parametrize(
    ("policy", "words"), [("raise", "round 1, client"), ("skip", ""), ("stop", "")]
)
def test_a_reply_that_is_not_finite_breaks_its_chain(policy: str, words: str) -> None:
    """The other chain goes on alone; with ``stop`` the run has diverged."""
    rng = torch.Generator().manual_seed(0)
    data = [(torch.randn(6, 4, generator=rng), torch.arange(6) % 3) for _ in range(4)]
    bad = [(x * (1e30 if k == 1 else 1), y) for k, (x, y) in enumerate(data)]
    sampler = ClientSampler(cohorts=[[0, 1, 2, 3]] * 2)

    def run(given: list[Any], cohorts: ClientSampler, cut: int) -> Any:
        on = ff.clients_of(given, test=data[0], classes=3)
        topology = f"chains(cut={cut})"
        return train(experiment(on=on, topology=topology, rounds=2, sampler=cohorts, on_bad=policy))

    if policy == "raise":
        with pytest.raises(NotFinite, match=words + " 1"):
            run(bad, sampler, 2)
    elif policy == "stop":
        assert run(bad, sampler, 2).status == "diverged"
    else:
        alone = run(data, ClientSampler(cohorts=[[2, 3]] * 2), 1)
        broken = run(bad, sampler, 2)
        assert torch.equal(broken.model.params, alone.model.params)


def test_a_client_that_is_missing_ends_its_chain() -> None:
    """The clients after it are not asked; the other chain's reply is enough, and the log names
    who was missing."""
    rng = torch.Generator().manual_seed(0)
    data = [(torch.randn(6, 4, generator=rng), torch.arange(6) % 3) for _ in range(6)]
    received: list[int] = []

    class Absent:
        def __init__(self, pool: Any) -> None:
            self.pool = pool

        def run(self, requests: Any) -> Any:
            for request in requests:
                received.append(request.client)
                if request.client == 1:
                    yield ClientFailure(1, request.id, "crashed")
                else:
                    yield from self.pool.run([request])

    class Away(InProcess):
        @contextmanager
        def open(self, *words: Any) -> Any:
            with super().open(*words) as pool:
                yield Absent(pool)

    on = ff.clients_of(data, test=data[0], classes=3)

    def run(cohort: list[int], cut: int, executor: Any, **more: Any) -> Any:
        sampler, topology = ClientSampler(cohorts=[cohort]), f"chains(cut={cut})"
        return train(
            experiment(on=on, topology=topology, rounds=1, sampler=sampler, **more),
            executor=executor,
        )

    found = run([0, 1, 2, 3, 4, 5], 2, Away(threads=1), min_replies=1)
    assert received == [0, 3, 1, 4, 5]
    assert torch.equal(found.model.params, run([3, 4, 5], 1, InProcess(threads=1)).model.params)
    assert found.ledger.missing == 1


def test_heads_are_apart_and_features_are_one() -> None:
    exp = experiment(
        "fedavg", topology="clusters(2, shared='features')", sampler=ClientSampler(clients=4)
    )
    result = train(exp)
    one, other = (dict(result.module(f"cluster{c}").named_parameters()) for c in (0, 1))
    assert list(one) == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    for name in one:
        assert torch.equal(one[name], other[name]) == name.startswith("fc1")


@pytest.mark.parametrize(
    "topology", ["clusters(3)", "clusters(3, shared='features')", "hierarchy(3, every=2)"]
)
def test_what_is_reported_of_several_models(topology: str, tmp_path: Path) -> None:
    """Each model on the test set; clients' own parts with the model of their own cluster, by hand
    from the files."""
    folder = tmp_path / "run"
    on = "digits(lda(0.3), clients=9, split=0.7)"
    more = {"rounds": 3, "clients_per_round": 3, "topology": topology}
    result = ff.run("fedavg", on=on, model="mlp(hidden=[6])", out=folder, quiet=True, **more)
    row = result.rows[-1]
    setup = prepare(from_json(json.loads((folder / "run.json").read_text())["experiment"]))
    shares, examples = [], {}
    for slot, clients in setup.server.slots.items():
        module = result.module(slot)
        test = setup.fed.test.batch(torch.arange(len(setup.fed.test)), torch.float32)
        with torch.no_grad():
            found = float((module(test.inputs).argmax(1) == test.targets).double().mean())
            assert row["models"][slot]["accuracy"] == pytest.approx(found, abs=1e-12)
            for client in clients:
                own = setup.fed.own_test(client)
                batch = own.batch(torch.arange(len(own)), torch.float32)
                shares.append(
                    float((module(batch.inputs).argmax(1) == batch.targets).double().mean())
                )
        examples[slot] = sum(len(setup.fed.data(client)) for client in clients)
    assert row["clients"] == pytest.approx(sum(shares) / 9, abs=1e-12)
    weighted = sum(n * row["models"][slot]["accuracy"] for slot, n in examples.items()) / sum(
        examples.values()
    )
    files = {path.name for path in folder.glob("final*")}
    if topology == "clusters(3)":
        assert row["model"] == "slots"
        assert row["accuracy"] == pytest.approx(weighted, abs=1e-12)
        assert len(files) == 3
        assert result.model is None
    else:
        assert row["model"] == "server"
        assert files == {"final.safetensors", *(f"final-cluster{c}.safetensors" for c in range(3))}
        read = {slot: load_file(folder / f"final-{slot}.safetensors") for slot in examples}
        mean = sum(n * read[slot]["fc1.weight"].double() for slot, n in examples.items()) / sum(
            examples.values()
        )
        written = load_file(folder / "final.safetensors")["fc1.weight"].double()
        torch.testing.assert_close(written, mean, rtol=0, atol=1e-6)
    assert ff.load(folder, model="cluster1") is not None


def test_a_folder_from_before_has_a_star() -> None:
    saved = experiment().as_json()
    assert saved["topology"] == "star()"
    saved["on"] = "digits(clients=5)"
    assert repr(from_json(saved).topology) == "star()"
    del saved["topology"]
    assert repr(from_json(saved).topology) == "star()"


def test_local_against_global_needs_a_star(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"rounds": 1, "clients_per_round": 2, "topology": "clusters(2)"}
    ff.run("fedavg", on="digits(clients=6)", out=tmp_path / "run", quiet=True, **more)
    assert main(["analyse", str(tmp_path / "run"), "--local-global"]) == 2
    assert "found clusters(2). Choose a run with a star." in " ".join(
        capsys.readouterr().err.split()
    )


def test_all_slots_draw_in_each_cluster() -> None:
    setup = prepare(experiment(topology="hierarchy(2, every=2)", sampler=ClientSampler(clients=2)))
    cohorts = [setup.server.select(t) for t in range(6)]
    for asked in cohorts:
        for slot, chains in asked.items():
            assert len(chains) == 2
            assert {client for (client,) in chains} <= set(setup.server.slots[slot])
    assert len({str(asked) for asked in cohorts}) > 1


PLUGIN = '''
from dataclasses import dataclass

import fedflat as ff


@ff.register("topology", "ring")
@dataclass(frozen=True, repr=False)
class Ring(ff.Topology):
    """Everybody in one chain that starts one client further in every round."""

    backwards: bool = False

    key = "ring"
    has_chains = True

    def select(self, population, t):
        """One chain of all clients."""
        ring = [(t + step) % population.n_clients for step in range(population.n_clients)]
        return {"server": [tuple(reversed(ring) if self.backwards else ring)]}

    def smallest_cohort(self, population):
        """One chain, one reply."""
        return 1

    def expected_clients(self, population):
        """All clients in every round."""
        return population.rounds * population.n_clients
'''


@pytest.mark.slow
def test_a_topology_of_ones_own_on_the_command_line(tmp_path: Path) -> None:
    """Written in a file outside the package, named in a text, in workers too."""
    (tmp_path / "my_ring.py").write_text(PLUGIN)
    common = ["--on", "digits(clients=4)", "--model", "logistic", "--rounds", "2", "--quiet"]
    common += ["--clients-per-round", "1"]
    output = ["--plugin", str(tmp_path / "my_ring.py"), "--topology", "ring(backwards=True)"]

    def fedflat(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "fedflat", *words], capture_output=True, text=True
        )

    folders = [tmp_path / name for name in ("here", "there")]
    for folder, config in zip(
        folders, (["--threads", "1"], ["--workers", "2", "--executor", "workers"]), strict=True
    ):
        done = fedflat("run", "fedsam(0.05)", *common, *output, *config, "--out", str(folder))
        assert done.returncode == 0, done.stderr
    assert final(folders[0]) == final(folders[1])
    assert rows(folders[0])[-1]["c2c"] == 3 * rows(folders[0])[-1]["down"]
    record = json.loads((folders[0] / "run.json").read_text())
    assert record["experiment"]["topology"] == "ring(backwards=True)"
    assert record["experiment"]["plugins"][0]["names"] == ["ring"]
    refused = fedflat("run", "scaffold", *common, *output)
    assert refused.returncode == 2
    assert "scaffold() cannot be used with ring(backwards=True)" in " ".join(refused.stderr.split())


def test_the_topology_is_in_the_setting_and_not_in_a_method() -> None:
    with pytest.raises(SettingError, match="topology"):
        replace(experiment(), topology=3)  # type: ignore[arg-type]
