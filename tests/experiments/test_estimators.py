"""FedSeq's estimators in whole runs: groups derived by hand, and messages by plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from torch import nn
from torch.nn.functional import cross_entropy

import fedflat as ff
from experiments.small import begin, experiment, final, kill_when_stopped, rows, start, timeless
from fedflat.cli import main
from fedflat.client.describers.classes import Confidence
from fedflat.client.describers.public import examples_per_class
from fedflat.client.describers.weights import ClassifierWeights
from fedflat.client.instructions import LabelCounts
from fedflat.client.local import LocalTraining
from fedflat.core.seeds import derive
from fedflat.data.federation import DataSpec
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.descriptions import collect_descriptions, load_descriptions
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.groups import read_groups
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from fedflat.topologies.groupings.client_vectors import representers

SIX = ((80, 15, 5), (65, 25, 10), (12, 80, 8), (22, 70, 8), (7, 11, 82), (5, 33, 62))
UNEQUAL = tuple(
    tuple(times * n for n in row) for times, row in zip((1, 3, 1, 2, 1, 1), SIX, strict=True)
)
RUN: dict[str, Any] = {"rounds": 1, "sampler": ClientSampler(clients=1), "model": ff.mlp([2])}


def holding(counts: Any) -> DataSpec:
    """Clients that hold so many examples of each class."""
    rng, given = torch.Generator().manual_seed(0), []
    for row in counts:
        y = torch.arange(len(row)).repeat_interleave(torch.tensor(row))
        given.append((torch.randn(len(y), 4, generator=rng), y))
    return clients_of(given, test=given[0], classes=len(counts[0]))


def groups(counts: Any, grouping: str, folder: Path) -> list[tuple[int, ...]]:
    """Who is with whom in a run, as its folder says."""
    begin(experiment(topology=f"chains(groups={grouping})", on=holding(counts), **RUN), folder)
    found = read_groups(folder, read_record(folder).identity)
    assert found is not None
    assert found.counts == tuple(map(tuple, counts))
    assert found.by == repr(parse(grouping, "grouping"))
    return list(found.groups)


@pytest.mark.parametrize(
    ("counts", "tau", "d_min", "expected"),
    [
        (SIX, "kl", 300, [(1, 5, 3), (2, 4, 0)]),
        (SIX, "gini", 300, [(1, 5, 3), (2, 4, 0)]),
        (SIX, "cosine", 300, [(4, 0, 2), (3, 5, 1)]),
        (UNEQUAL, "kl", 400, [(1, 5, 2), (3, 4, 0)]),
    ],
)
def test_greedy_groups_by_hand(
    counts: Any, tau: str, d_min: int, expected: Any, tmp_path: Path
) -> None:
    output = f"greedy(psi='labels', tau='{tau}', d_min={d_min}, k_max=4, start='uniform')"
    assert groups(counts, output, tmp_path / "run") == expected


def test_kmeans_deals_clusters_out(tmp_path: Path) -> None:
    """Clusters of clients 0..5 are 0, 0, 1, 1, 2, 2, whatever k-means calls them."""
    counts = [(100, 0, 0), (99, 1, 0), (0, 100, 0), (0, 99, 1), (0, 0, 100), (1, 0, 99)]
    found = groups(counts, "kmeans(psi='labels', d_min=300, k_max=4)", tmp_path / "run")
    assert sorted(map(sorted, found)) == [[0, 2, 4], [1, 3, 5]]


def test_every_group_has_one_of_each_kind(tmp_path: Path) -> None:
    counts = [(100, 0), (90, 10), (0, 100), (10, 90)]
    found = groups(counts, "icg(2, psi='labels')", tmp_path / "run")
    assert sorted(len({0, 1} & set(group)) for group in found) == [1, 1]
    assert sorted(map(len, found)) == [2, 2]


def trained_alone(setup: RunSetup, epochs: int, lr: float, decay: float) -> list[nn.Module]:
    """Every client's model by plain loops: torch's own SGD on the same batches."""
    found = []
    for client in range(setup.fed.population):
        data, module = setup.fed.data(client), setup.job.learner.module().double()
        optimiser = torch.optim.SGD(module.parameters(), lr=lr, weight_decay=decay)
        local = LocalTraining(epochs=epochs, batch_size=4)
        for places in local.batches(derive(setup.exp.seed, "describe"), 0, client, len(data)):
            batch = data.batch(places, torch.float64)
            optimiser.zero_grad()
            cross_entropy(module(batch.inputs), batch.targets).backward()
            optimiser.step()
        found.append(module)
    return found


def prepared_with(topology: str, executor: Any = InProcess(threads=1), **more: Any) -> RunSetup:
    """A run with the descriptions of its clients."""
    local = LocalTraining(batch_size=4, lr=0.05, weight_decay=0.01, epochs=3)
    exp = experiment(
        topology=topology, dtype="float64", local=local, sampler=ClientSampler(clients=1), **more
    )
    return collect_descriptions(prepare(exp), RunFolder(), executor, lambda exp, place: {})


@pytest.mark.parametrize("executor", [InProcess(threads=1), Stacked()], ids=["here", "stacked"])
@pytest.mark.parametrize("layers", ["all", "last", "last_two"])
def test_weights_of_linear_layers(layers: str, executor: Any) -> None:
    """The run's own steps, from the one common model, for two epochs; only these weights go up."""
    by = ClassifierWeights(epochs=2, layers=layers)
    output = f"classifier_weights(epochs=2, layers='{layers}')"
    setup = prepared_with(
        f"chains(groups=greedy(psi={output}, tau='cosine', d_min=15))",
        executor,
        model=ff.mlp([5, 3]),
    )
    twins = trained_alone(setup, 2, 0.05, 0.01)
    linear = [
        [part.weight.reshape(-1) for part in twin.modules() if isinstance(part, nn.Linear)]
        for twin in twins
    ]
    chosen = [
        {"all": one, "last": one[-1:], "last_two": [one[-1], one[-2]]}[layers] for one in linear
    ]
    expected = torch.stack([torch.cat(parts).detach() for parts in chosen])
    torch.testing.assert_close(
        torch.stack(list(setup.server.population.descriptions[by])), expected, rtol=0, atol=1e-10
    )
    dim, count = setup.job.learner.flat.layout.dim, expected.shape[1]
    assert (setup.initial_cost.down, setup.initial_cost.up) == (5 * dim * 8, 5 * count * 8)
    assert setup.initial_cost.samples == 2 * sum(setup.fed.sizes())
    components = PCA(0.9, svd_solver="full").fit_transform(expected.numpy())
    np.testing.assert_allclose(
        pdist(representers(by, setup.server.population.descriptions[by])),
        pdist(components),
        rtol=1e-6,
    )


def test_confidence_on_the_public_set() -> None:
    """Sums of the true class's probability over two public examples of each class, as shares; whole
    models go up, and only shares are kept."""
    by, on = Confidence(epochs=1, per_class=2), "digits(lda(0), clients=5)"
    setup = prepared_with(
        f"chains(groups=kmeans(psi={by}, d_min=15, k_max=1))",
        on=parse(f"without_public_part({on})", "data set"),
        server_data="public_part(digits())",
        model=ff.logistic(),
    )
    assert setup.server_data is not None
    shown = examples_per_class(setup.server_data.data, 2, setup.exp.seed)
    assert shown.labels.bincount().tolist() == [2] * 10
    batch = shown.batch(torch.arange(20), torch.float64)
    for twin, found in zip(
        trained_alone(setup, 1, 0.05, 0.01), setup.server.population.descriptions[by], strict=True
    ):
        chances = twin(batch.inputs).softmax(1).detach()
        sums = torch.tensor(
            [
                sum(float(p[c]) for p, y in zip(chances, batch.targets, strict=True) if y == c)
                for c in range(10)
            ],
            dtype=torch.float64,
        )
        torch.testing.assert_close(found, sums / sums.sum(), rtol=0, atol=1e-10)
    model = (setup.job.learner.flat.layout.dim + len(setup.job.learner.initial().buffers)) * 8
    assert (setup.initial_cost.down, setup.initial_cost.up) == (5 * model, 5 * model)


def test_a_probe_is_trained_on_the_servers_data_first(tmp_path: Path) -> None:
    """It is a run of its own in the folder, and what clients are sent; the vectors are those of
    that probe."""
    settings: dict[str, Any] = {
        "on": "without_public_part(digits(lda(0), clients=6))",
        "server_data": "public_part(digits())",
        "rounds": 1,
        "clients_per_round": 1,
        "model": "mlp(hidden=[6])",
        "threads": 1,
        "quiet": True,
        "seed": 2,
        "topology": "chains(groups=icg(3, psi=task2vec(draws=64, epochs=1, probe_epochs=3)))",
    }
    result = ff.run("fedavg", out=tmp_path / "run", **settings)
    probe = tmp_path / "run/descriptions/probe-3"
    assert read_record(probe).status == "done"
    assert read_record(probe).experiment.rounds == 3
    assert read_record(probe).experiment.on == "public_part(digits())"
    messages = {name: value for name, value in settings.items() if name not in ("threads", "quiet")}
    setup = prepare(ff.experiment("fedavg", **messages))
    again = load_descriptions(setup, tmp_path / "run", read_record(tmp_path / "run").identity)
    [vectors] = again.server.population.descriptions.values()
    assert {tuple(one.shape) for one in vectors} == {(6,)}
    dim = setup.job.learner.flat.layout.dim
    plain = ff.run("fedavg", **{**settings, "topology": "chains(groups=3)"})
    requests = result.rows[0]["down"] - plain.rows[0]["down"]
    assert (
        requests == 6 * dim * 4
    )  # the probe to everybody; a chain of two clients a round either way
    assert result.rows[0]["up"] - plain.rows[0]["up"] == 6 * 6 * 4


def test_all_executors_say_the_same() -> None:
    output = "chains(groups=greedy(psi=classifier_weights(epochs=1), tau='cosine', d_min=300))"
    exp = ff.experiment(
        "fedavg", "digits(lda(0), clients=8)", rounds=1, clients_per_round=1, topology=output
    )
    here, wired = (train(prepare(exp), executor=one) for one in (InProcess(threads=1), Loopback()))
    assert here.rows[0]["loss"] == wired.rows[0]["loss"]


def test_an_estimator_that_has_nothing_to_look_at() -> None:
    with pytest.raises(ff.SettingError, match="no linear layer to describe clients by"):
        prepare(
            ff.experiment(
                "fedavg",
                "street(clients=2, examples=2, tests=2, width=16, height=16)",
                rounds=1,
                clients_per_round=1,
                topology="clusters(alike(2, psi='classifier'))",
            )
        )
    with pytest.raises(ff.SettingError, match="these data have no class for each example"):
        prepare(
            ff.experiment("fedavg", "diabetes(clients=4)", rounds=1, topology="clusters(alike(2))")
        )


def test_short_names_and_texts_mean_the_same() -> None:
    for psi in ("'labels'", "label_counts()", "'label_counts()'"):
        assert parse(f"clusters(alike(2, psi={psi}))", "topology").describers == (LabelCounts(),)


@pytest.mark.parametrize(
    "config",
    [("--threads", "1"), pytest.param(("--workers", "2"), marks=pytest.mark.slow)],
    ids=["alone", "workers"],
)
def test_kill_9_in_the_middle_of_the_estimators(tmp_path: Path, config: tuple[str, ...]) -> None:
    """Those who have answered keep their lines, the others are asked, and the bytes at the end are
    the same."""
    words = [
        "run",
        "fedavg",
        "--on",
        "digits(lda(0), clients=20)",
        "--rounds",
        "3",
        "--clients-per-round",
        "2",
        "--quiet",
        "--topology",
        "chains(groups=kmeans(psi=classifier_weights(epochs=100), d_min=200, clusters=4))",
        *config,
    ]
    part, whole = tmp_path / "part", tmp_path / "whole"
    lines = part / "descriptions/asked.jsonl"
    stop = ("fedflat.experiments.run_folder.description_store:DescriptionStore.keep", 4)
    kill_when_stopped(start(*words, "--out", str(part), start_new_session=True, stop_after=stop))
    before = lines.read_bytes()
    assert before.count(b"\n") == 4
    assert not (part / "groups.json").exists()
    assert main(["resume", str(part), "--quiet"]) == 0
    assert lines.read_bytes().startswith(before)
    assert main([*words, "--out", str(whole)]) == 0
    assert final(part) == final(whole)
    assert timeless(rows(part)) == timeless(rows(whole))
    assert (part / "descriptions/vectors.bin").read_bytes() == (
        whole / "descriptions/vectors.bin"
    ).read_bytes()
    found = [read_groups(folder, read_record(folder).identity) for folder in (part, whole)]
    assert found[0] == found[1] is not None
