"""Groups of similar clients, by descriptions or by a column of the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedflat as ff
from fedflat.data.client_columns import column, facets
from fedflat.data.domains import Domains
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import PartitionedFederation
from fedflat.errors import SettingError
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.registry.specs import parse

STREET = "street(towns=2, weather='rain', view='car', clients=5, examples=4, tests=4, width=16, height=16)"


def towns(*parts: list[int]) -> PartitionedFederation:
    """Clients that hold the examples at these places, of which the last two are of another town."""
    domains = Domains(
        ("town", "weather"),
        (("A", "sun"), ("A", "rain"), ("A", "sun"), ("B", "sun"), ("B", "rain")),
    )
    examples = Examples(torch.zeros(5, 2), torch.zeros(5, dtype=torch.long), 2, domains=domains)
    return PartitionedFederation(
        examples, ClientData(examples, torch.arange(5)), [torch.tensor(part) for part in parts]
    )


def test_clusters_are_the_groups() -> None:
    """Three clusters of shares that have one right clustering; none is empty, no client is lost."""
    vectors = np.array(
        [[0.9, 0.1], [0.1, 0.9], [0.88, 0.12], [0.5, 0.5], [0.12, 0.88], [0.52, 0.48]]
    )
    for seed in range(5):
        found = ff.alike(3).assign(vectors, [10] * 6, np.random.default_rng(seed))
        assert found == [[0, 2], [1, 4], [3, 5]]


def test_more_groups_than_clients() -> None:
    with pytest.raises(SettingError, match="alike: 7 groups cannot be made of 6 clients"):
        ff.alike(7).assign(np.eye(6), [1] * 6, np.random.default_rng(0))
    assert ff.alike(6).assign(np.ones((6, 2)), [1] * 6, np.random.default_rng(0)) == [
        [k] for k in range(6)
    ]


def test_columns() -> None:
    fed = towns([0, 1], [3], [2])
    assert facets(fed) == ("town", "weather")
    assert column(fed, "town") == ["A", "B", "A"]
    with pytest.raises(
        SettingError, match=r"by 'weather', since client 0 has several \(rain, sun\)"
    ):
        column(fed, "weather")
    with pytest.raises(
        SettingError, match=r"no column 'twon'. Did you mean 'town'\? They have town, weather"
    ):
        column(fed, "twon")
    with pytest.raises(
        SettingError, match=r"no column 'town'\. They say nothing of where clients are from"
    ):
        column(ff.digits().open(0), "town")


def test_clients_of_one_town_in_a_run() -> None:
    """Clients 0, 2 and 4 are of the first town, as the data set says; the models of both towns
    meet."""
    exp = ff.experiment(
        "fedavg",
        STREET,
        rounds=2,
        clients_per_round=1,
        model="small_unet(width=4)",
        topology="hierarchy(by_column('town'), every=2)",
    )
    setup = prepare(exp)
    assert setup.server.slots == {"cluster0": (0, 2, 4), "cluster1": (1, 3)}
    assert train(setup).status == "done"
    with pytest.raises(SettingError, match="no column 'city'"):
        prepare(ff.experiment("fedavg", STREET, rounds=2, topology="clusters(by_column('city'))"))


def test_clusters_by_labels_in_a_run() -> None:
    exp = ff.experiment(
        "fedavg",
        "digits(lda(0), clients=12)",
        rounds=1,
        clients_per_round=2,
        topology="clusters(alike(3))",
    )
    result = train(exp)
    assert set(result.rows[-1]["models"]) == {"cluster0", "cluster1", "cluster2", "slots"}


def test_refused() -> None:
    with pytest.raises(SettingError, match=r"alike: psi must be .* Did you mean 'labels'"):
        parse("alike(3, psi='label')", "grouping")
    with pytest.raises(SettingError, match="by_column: column must be a name"):
        parse("by_column(3)", "grouping")
