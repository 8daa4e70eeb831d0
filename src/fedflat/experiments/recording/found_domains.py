"""The domains that FedCG finds, and their graph.

Measured whenever the model is evaluated. Found domains are those of the images of the main test
set: the student's most probable ones, or with k-means that of the client which holds the image out.
Purity and mutual information compare them with the known domains of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fedflat.client.piece import eval_model_piece
from fedflat.data.federation import owners_of_tests
from fedflat.errors import SettingError
from fedflat.experiments.callbacks import RecordedValues
from fedflat.experiments.recording.recorder import Metric, RoundView
from fedflat.experiments.run_setup import RunSetup
from fedflat.models.domain_branches import ADJACENCY, DOMAIN, STUDENT
from fedflat.registry.specs import register
from fedflat.server.step import StepResult


def domain_table(found: Sequence[int], known: Sequence[object], domains: int) -> NDArray[np.int64]:
    """The number of examples of each found domain (rows) and known domain (columns, sorted).

    >>> domain_table([0, 0, 1, 1], ["a", "b", "b", "b"], 3).tolist()
    [[1, 1], [0, 2], [0, 0]]
    """
    values = sorted(set(known), key=repr)
    table = np.zeros((domains, len(values)), np.int64)
    place = {value: column for column, value in enumerate(values)}
    for row, value in zip(found, known, strict=True):
        table[row, place[value]] += 1
    return table


def purity(found: Sequence[int], known: Sequence[object]) -> float:
    """Share of examples that are of the most frequent known domain of their found domain.

    With one found domain it is the share of the largest known domain; with as many found domains
    as examples it is 1.

    >>> purity([0, 0, 1, 1], ["a", "b", "b", "b"])
    0.75
    """
    table = domain_table(found, known, max(found) + 1)
    return float(table.max(1).sum() / table.sum())


def mutual_information(found: Sequence[int], known: Sequence[object]) -> float:
    """Adjusted mutual information: 1 for the same division, 0 on average for a random one.

    >>> mutual_information([1, 1, 0, 0], ["a", "a", "b", "b"])
    1.0
    """
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score([repr(value) for value in known], found))


CHUNK = 256


def found_domains(s: RoundView, new: StepResult) -> list[int]:
    """The found domain of each image of the main test set, computed once per round."""
    if "found domains" not in s.scratch:
        by_client = hasattr(s.setup.job.learner.flat.module, DOMAIN)
        s.scratch["found domains"] = _of_clients(s.setup) if by_client else _of_student(s, new)
    return list(s.scratch["found domains"])


def _of_student(s: RoundView, new: StepResult) -> list[int]:
    learner, data = s.setup.job.learner, s.setup.fed.test
    learner.load(new.model)
    student = learner.flat.module.eval().get_submodule(STUDENT)
    chunks = torch.arange(len(data)).split(CHUNK)
    with torch.no_grad():
        found = [student(data.batch(chunk, learner.dtype).inputs).argmax(1) for chunk in chunks]
    domains: list[int] = torch.cat(found).tolist()
    return domains


def _of_clients(setup: RunSetup) -> list[int]:
    piece, owners = eval_model_piece(setup.job.pieces), owners_of_tests(setup.fed)
    assert piece is not None
    assert owners is not None
    states = piece.states_from_shared(setup.job.shared[piece.key])
    assert states is not None
    return [int(states[client]["domain"]) for client in owners.tolist()]


def _network(metric: Metric, setup: RunSetup) -> nn.Module:
    module = setup.job.learner.flat.module
    if not hasattr(module, ADJACENCY):
        raise SettingError(
            f"record: {metric.key} is for methods with branches for domains, such as fedcg(). "
            "Remove it from --record."
        )
    return module


class _OfFoundDomains(Metric):
    """Base class of metrics of found domains."""

    def check(self, setup: RunSetup) -> None:
        network = _network(self, setup)
        if not hasattr(network, STUDENT) and not hasattr(network, DOMAIN):
            raise SettingError(
                f"record: {self.key} looks at found domains, and {setup.exp.method} is given the "
                "known ones. Remove it from --record."
            )

    def cost(self, setup: RunSetup) -> str:
        """A forward pass of the student, if there is one."""
        if not hasattr(setup.job.learner.flat.module, STUDENT):
            return "nothing"
        return "one forward pass of the domain classifier over the test set every evaluation"


class _Match(_OfFoundDomains):
    """Base class of comparisons with known domains."""

    def check(self, setup: RunSetup) -> None:
        """The test set must have several known domains."""
        super().check(setup)
        domains = setup.fed.test.domains
        if domains is None or len(set(domains.each)) < 2:
            raise SettingError(
                f"record: {self.key} compares found domains with known ones, and the test set has "
                "one domain or none. Use data such as transformed(...), or remove it."
            )

    def known(self, s: RoundView) -> tuple[tuple[str, ...], ...]:
        """The known domain of each test image."""
        domains = s.setup.fed.test.domains
        assert domains is not None
        return domains.each


@register("metric", "domain_purity")
@dataclass(frozen=True, repr=False)
class DomainPurity(_Match):
    """Share of test images of the most frequent known domain of their found domain."""

    title = "Purity of the found domains"
    note = "Share of test images that are of the most frequent known domain of their found domain."
    unit = "%"

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        return {self.key: purity(found_domains(s, new), self.known(s))} if s.due else {}


@register("metric", "domain_information")
@dataclass(frozen=True, repr=False)
class DomainInformation(_Match):
    """Adjusted mutual information of found and known domains of the test images."""

    title = "Adjusted mutual information of found and known domains"
    note = "1 if the found domains are the known ones, 0 on average if they are random."

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        return {self.key: mutual_information(found_domains(s, new), self.known(s))} if s.due else {}


@register("metric", "domain_shares")
@dataclass(frozen=True, repr=False)
class DomainShares(_OfFoundDomains):
    """Share of the test images of each found domain."""

    title = "Test images of each found domain"
    note = (
        "Share of the test images of each domain: the most probable one for the student, or that of "
        "the client with k-means."
    )
    entries = "domain"
    unit = "%"

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        if not s.due:
            return {}
        domains = len(s.setup.job.learner.flat.module.get_buffer(ADJACENCY))
        counts = torch.bincount(torch.tensor(found_domains(s, new)), minlength=domains)
        return {self.key: (counts / counts.sum()).tolist()}


@register("metric", "domain_graph")
@dataclass(frozen=True, repr=False)
class DomainGraph(Metric):
    """The graph of domains after each round, row by row."""

    title = "Graph of the domains"
    note = (
        "The matrix A after the last round: how much each domain (row) takes from each other one."
    )
    entries, drawing = "domain", "matrix"

    def check(self, setup: RunSetup) -> None:
        _network(self, setup)

    def cost(self, setup: RunSetup) -> str:
        return "nothing"

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        learner = s.setup.job.learner
        learner.load(new.model)
        return {self.key: learner.flat.module.get_buffer(ADJACENCY).flatten().tolist()}


@register("metric", "branch_weight")
@dataclass(frozen=True, repr=False)
class BranchWeight(Metric):
    """The learnt weight of the branches, lambda; with several layers, of each of them."""

    title = "Weight of the branches"
    note = "The learnt factor lambda of the domain branches of each layer."
    entries = "layer"

    def check(self, setup: RunSetup) -> None:
        """The method must learn such a weight."""
        _network(self, setup)
        if not _weights(setup.job.learner.flat.module):
            raise SettingError(
                f"record: {self.key} is learnt by fedcg() with agnostic=True and "
                "learn_weight=True. Remove it from --record."
            )

    def cost(self, setup: RunSetup) -> str:
        return "nothing"

    def on_round_end(self, s: RoundView, new: StepResult) -> RecordedValues:
        s.setup.job.learner.load(new.model)
        found = _weights(s.setup.job.learner.flat.module)
        return {self.key: found[0] if len(found) == 1 else found}


def _weights(module: nn.Module) -> list[float]:
    layers = [module.get_submodule(f"network.{name}") for name in module.names]  # type: ignore[union-attr]
    return [
        float(layer.weight.detach()) for layer in layers if isinstance(layer.weight, nn.Parameter)
    ]
