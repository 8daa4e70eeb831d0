"""Impossible combinations with a topology are refused before anything runs; the error names
both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from torch import Tensor

import fedflat as ff
from experiments.small import experiment
from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method
from fedflat.core.stage import Stage
from fedflat.errors import FedflatError, SettingError
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from fedflat.registry.specs import parse, registered
from fedflat.server.client_selection import Chain, ClientSampler, Selection
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.topology import ClientPopulation, Topology

CHAINS, SHARED, MEETING, APART = (
    "chains(groups=2)",
    "clusters(2, shared='features')",
    "hierarchy(2)",
    "clusters(2)",
)


@pytest.mark.parametrize(
    ("method", "topology", "words"),
    [
        (
            "feddyn()",
            CHAINS,
            r"dual\(0.01\) cannot be used with chains\(groups=2\): it stores a state at each client",
        ),
        ("scaffold()", CHAINS, r"scaffold\(\) cannot be used with chains.*stores a state"),
        (
            "mimelite()",
            CHAINS,
            r"mime\(.*\) cannot be used with chains.*sends vectors to the server with every reply",
        ),
        (
            "mime()",
            CHAINS,
            r"mime\(.*\) cannot be used with chains.*must start from the server's model",
        ),
        ("fedala()", CHAINS, r"ala\(.*must start from the server's model"),
        ("fedbn()", CHAINS, r"private\(.*must start from the server's model"),
        ("adabest()", "chains(cut=2)", r"cannot be used with chains\(cut=2\)"),
        (
            "all_clients()",
            CHAINS,
            r"all_clients\(\) cannot be used with chains.*needs the model of every client",
        ),
        (
            "personal()",
            CHAINS,
            r"personal\(\) cannot be used with chains.*needs the model of every client",
        ),
        ("centralised()", CHAINS, r"it cannot be used with chains\(groups=2\)"),
        ("centralised()", APART, r"it cannot be used with clusters\(2\)"),
        (
            "scaffold()",
            MEETING,
            r"scaffold\(\) cannot be used with hierarchy\(2\).*ends when models merge",
        ),
        (
            "feddyn()",
            SHARED,
            r"dual\(0.01\) cannot be used with clusters\(2, shared='features'\).*ends when models merge",
        ),
        (
            "swa()",
            APART,
            r"swa\(\) cannot be used with clusters\(2\): it averages the server's model, but there is no one model",
        ),
    ],
)
def test_methods_that_mean_nothing_there(method: str, topology: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        experiment(method, topology=topology)


@pytest.mark.parametrize(
    "method",
    [
        "fedsam(0.1)",
        "fedasam()",
        "man(0.1)",
        "fedprox()",
        "mixup()",
        "clip(1)",
        "fedavgm()",
        "fedadam()",
        "swa()",
    ],
)
def test_methods_that_are_at_home_in_a_chain(method: str) -> None:
    experiment(method, topology=CHAINS)


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("chains(groups=9)", "9 groups were asked for, but there are only 5 clients"),
        (
            "chains(groups=1)",
            r"2 clients a round were asked for, which with chains\(groups=1\) are superclients",
        ),
        ("chains(cut=3)", r"cuts a cohort into 3 chains, but there are rounds with 2 clients only"),
        ("clusters(4, draw='each')", "drawn in each cluster, but cluster0 has only 1"),
        ("clusters(2, shared=['fc9'])", "the model has no layer 'fc9' to share. It has fc1.weight"),
        ("hierarchy(2, every=7)", "every 7 rounds, but the run has only 6: they would never merge"),
        (
            "clusters(given_groups([[0, 1], [1, 2, 3, 4]]))",
            "must put each of the 5 clients into one group",
        ),
        ("clusters(given_groups([[0, 1, 2, 3, 4], []]))", "leave no group empty"),
        ("clusters(given_groups([[0, 'a']]))", "members must be lists of clients"),
        ("clusters(given_groups(3))", "members must be lists of clients"),
        ("chains(groups=kmeans(d_min=10, k_max=3))", "confidence.* needs data of the server's own"),
    ],
)
def test_clients_it_cannot_be_made_of(topology: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        prepare(experiment(topology=topology))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("chains()", "found neither"),
        ("chains(groups=2, cut=1)", "found both"),
        ("chains(cut=0)", "cut"),
        ("chains(groups='x')", "a grouping such as"),
        ("clusters(True)", "a grouping such"),
        ("clusters(0)", "count"),
        ("clusters(2, shared='head')", "shared"),
        ("clusters(2, shared=[])", "a list of names of layers"),
        ("clusters(2, shared=1)", "a list of names of layers, found 1"),
        ("clusters(2, shared=[1])", r"found \(1,\)"),
        ("clusters(2, shared=True)", "found True"),
        ("clusters(2, shared=fedavg())", r"found fedavg\(\)"),
        ("style_clusters(2, shared=0.5)", "style_clusters: shared must be .* found 0.5"),
        ("clusters(2, draw='some')", "draw"),
        ("hierarchy(2, every=0)", "every"),
        ("random_groups(2)", "grouping, not a topology"),
        ("fedavg", "is a method, not a topology"),
    ],
)
def test_texts_that_say_no_topology(text: str, words: str) -> None:
    with pytest.raises(ff.FedflatError, match=words):
        parse(text, "topology")


def test_a_rule_needs_enough_chains() -> None:
    with pytest.raises(SettingError, match="needs at least 3 replies a round, but only 2"):
        prepare(experiment("trimmed_mean(1)", topology=CHAINS))
    with pytest.raises(SettingError, match="needs at least 3 replies a round, but only 1"):
        prepare(experiment("trimmed_mean(1)", topology=APART, sampler=ClientSampler(clients=4)))


def test_recording_needs_one_model() -> None:
    from fedflat.experiments.recording import Recorder

    with pytest.raises(
        SettingError, match=r"metrics are defined for one server model, and hierarchy\(2\) has 2"
    ):
        Recorder.of(prepare(experiment(topology=MEETING)), "drift")


def test_groups_and_superclients_are_fixed_by_the_seed() -> None:
    def groups(seed: int) -> tuple[Chain, ...]:
        setup = prepare(experiment(topology="chains(groups=2)", seed=seed))
        return setup.exp.topology.superclients(setup.server.population)  # type: ignore[attr-defined]

    assert groups(1) == groups(1)
    assert len({groups(seed) for seed in range(8)}) > 1
    assert all(
        sorted(k for group in groups(seed) for k in group) == [0, 1, 2, 3, 4] for seed in range(8)
    )


@dataclass(frozen=True, repr=False)
class Talkative(Piece):
    """Sends something with every reply and does not say so."""

    stage, key = Stage.CORRECT, "talkative"

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        v.outbox["more"] = w[:1]
        return w


def test_a_piece_that_did_not_say_what_it_sends() -> None:
    method = Method(client=(Talkative(),))
    exp = replace(experiment(), method=method, topology=parse("chains(cut=1)", "topology"))
    with pytest.raises(
        SettingError, match="the piece 'talkative' sends something to the server with every reply"
    ):
        train(exp)
    train(replace(exp, topology=parse("star()", "topology"), rounds=1))


@dataclass(frozen=True, repr=False)
class Wild(Topology):
    """Selects the given chains, valid or not."""

    asks: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]

    key = "wild"

    def select(self, population: ClientPopulation, t: int) -> Selection:
        return {slot: list(chains) for slot, chains in self.asks}


@pytest.mark.parametrize(
    "asks",
    [
        (),
        (("server", ()),),
        (("server", ((),)),),
        (("server", ((1,), (1, 2))),),
        (("moon", ((1,),)),),
    ],
)
def test_a_topology_that_selects_no_client_or_one_twice(asks: tuple[object, ...]) -> None:
    setup = prepare(experiment())
    object.__setattr__(setup.server, "topology", Wild(asks))  # type: ignore[arg-type]
    with pytest.raises(
        FedflatError, match="must ask different clients in round 1, from slots among server"
    ):
        setup.server.select(0)


def test_a_topology_that_hides_its_chains() -> None:
    setup = prepare(experiment())
    object.__setattr__(setup.server, "topology", Wild((("server", ((1, 2),)),)))
    with pytest.raises(FedflatError, match=r"round 1.*has_chains is False.*Set has_chains to True"):
        setup.server.select(0)


def test_every_topology_and_grouping_says_what_it_is() -> None:
    names = {
        entry.name
        for kind in ("topology", "grouping")
        for entry in registered(kind)
        if entry.summary
    }
    assert {"star", "chains", "clusters", "hierarchy", "random_groups", "given_groups"} <= names
    assert issubclass(ff.random_groups, Grouping)


@pytest.mark.parametrize(
    ("method", "clients", "words"),
    [
        ("fedseq(groups=5)", 2, "5 superclients of 5 clients are chains of one client each"),
        ("fedseq(groups=6)", 2, "6 groups were asked for, but there are only 5 clients"),
        (
            "fedseq2par(growth=linear(0.5, b=5))",
            2,
            "5 superclients of 5 clients are chains of one client each",
        ),
        ("fedcyclic()", 1, "1 clients a round, cut into 1, are chains of one client each"),
        ("hfl(2, T_c=7)", 1, "merges its clusters every 7 rounds, but the run has only 6"),
        ("hfl(6)", 1, "6 groups were asked for"),
        ("hfl(5)", 2, "cluster0 has only 1"),
    ],
)
def test_words_that_cannot_be_made_of_these_clients(method: str, clients: int, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        prepare(experiment(method, sampler=ClientSampler(clients=clients)))
