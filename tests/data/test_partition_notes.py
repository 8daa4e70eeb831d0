"""What is printed of a partition beside results."""

from __future__ import annotations

import pytest

import fedflat as ff
from fedflat.experiments.results.scenario import Scenario
from fedflat.experiments.run_cost import partition_notes
from fedflat.registry.specs import parse

ELSEWHERE = "NIID-Bench, PFLlib and FedLab draw dirichlet({0}), Flower Datasets dirichlet({0}, balance=False)."


def test_total_concentration_is_explained() -> None:
    (note,) = Scenario("digits(lda(0.5, in_turns=True), clients=20)").notes
    here = "lda(0.5, in_turns=True): alpha is the total concentration, divided among the classes. "
    assert note == here + ELSEWHERE.format(0.5)


def test_with_open_data_the_classes_of_a_client_are_counted() -> None:
    """Mean over clients of the classes among their labels, to one digit."""
    spec = ff.digits(ff.lda(0.5), clients=20)
    fed = spec.open(3)
    mean = sum(len(fed.data(client).labels.unique()) for client in range(20)) / 20
    (note,) = partition_notes(spec, fed)
    assert f"divided among the classes ({mean:.1f} classes a client on average). NIID-Bench" in note


def test_a_set_made_of_another_is_looked_into() -> None:
    spec = parse("unlabelled(digits(lda(0.5), clients=20))", "data set")
    (note,) = partition_notes(spec, spec.open(0))  # clients without labels have no classes to count
    assert "divided among the classes. NIID" in note


@pytest.mark.parametrize(
    "text",
    [
        "digits(lda(0))",
        "digits(lda(0.5, concentration='component'))",
        "digits()",
        "digits(dirichlet(0.1))",
        "diabetes(clients=8)",
        "unknown_set(lda(0.1))",
        "None",
        "digits(lda(",
    ],
)
def test_nothing_to_explain(text: str) -> None:
    assert Scenario(text).notes == ()
