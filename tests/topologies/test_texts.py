"""Methods with a topology of their own: one text, beside others in a study, without
contradictions."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from experiments.small import begin, experiment, final, go_on, rows, timeless
from fedflat.cli import main
from fedflat.client.local import LocalTraining
from fedflat.composition.method import Method
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import Experiment, from_json
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.train import train
from fedflat.registry.specs import parse, registered
from fedflat.server.client_selection import ClientSampler

SAME = {
    "fedseq(groups=2)": "chains(groups=2, draw='share')",
    "fedseq(random(d_min=12, k_max=3))": "chains(groups=random(d_min=12, k_max=3), draw='share')",
    "fedseq(2, passes=2)": "chains(groups=2, draw='share', passes=2)",
    "fedseq2par(growth=linear(0.5, b=2))": "chains(groups=2, draw='share', growth=linear(0.5, b=2))",
    "fedcyclic()": "chains(cut=1)",
    "hfl(2)": "hierarchy(2)",
    "hfl(clusters=2, T_c=3)": "hierarchy(2, every=3)",
    "fedasyncseq(3, R=2)": "bank(3, R=2, draw='share')",
    "fedbuff(buffer=2, concurrency=3, durations='lognormal')": (
        "asynchronous(buffer=2, concurrency=3, staleness='polynomial', durations='lognormal')"
    ),
    "fedasync(alpha=0.5, staleness='hinge', b=1)": "asynchronous(mixing=0.5, staleness='hinge', b=1)",
}
"""The word, and the topology behind it."""
ON = "digits(lda(0), clients=20)"


def method_of(text: str) -> Method:
    method = parse(text, "method")
    assert isinstance(method, Method)
    return method


def result(exp: Experiment) -> Result:
    return train(exp, executor=InProcess(threads=1))


def test_every_word_is_tried() -> None:
    ours = {
        entry.name
        for entry in registered("method")
        if entry.make.__module__
        in ("fedflat.methods.fedseq", "fedflat.methods.fedseq", "fedflat.methods.fedbuff")
    }
    assert ours == {text.partition("(")[0] for text in SAME}


@pytest.mark.parametrize("text", SAME)
@pytest.mark.parametrize("more", ["", " + sam(rho=0.1) + fedadam(lr=0.1) + wima(2)"])
def test_a_word_is_its_topology(text: str, more: str) -> None:
    """The same bits as the rest of the sum with that topology, in either order of the sum."""
    rest = f"fedavg(){more}"
    apart = result(experiment(rest, topology=SAME[text]))
    for sum_ in (
        f"{text} + {rest}",
        f"{rest} + {text}",
        f"chain({text}) + {rest}" if not more else f"{text}{more}",
    ):
        found = result(experiment(sum_))
        assert timeless(found.rows) == timeless(apart.rows)
        assert found.model is not None
        assert apart.model is not None
        assert torch.equal(found.model.params, apart.model.params)


@pytest.mark.parametrize("text", [*SAME, "fedvc(5)"])
def test_a_topology_is_a_value(text: str) -> None:
    method = method_of(text)
    again = pickle.loads(pickle.dumps(method))
    assert again == method == method_of(repr(method))
    assert hash(again) == hash(method)
    assert method_of(f"{text} + sam(0.1)") != method_of("sam(0.1)") != method


@pytest.mark.parametrize("text", SAME)
def test_a_topology_is_stored_and_resumed(text: str, tmp_path: Path) -> None:
    exp = experiment(f"{text} + sam(0.1)")
    saved = json.loads(json.dumps({**exp.as_json(), "loss": "cross_entropy"}))
    assert saved["topology"] == repr(parse(SAME[text], "topology"))
    assert from_json(saved, on=exp.on).topology == exp.topology
    begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "part", stop=3)
    go_on(exp, tmp_path / "part")
    assert final(tmp_path / "part") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "part")) == timeless(rows(tmp_path / "whole"))


def test_the_stack_tells_it() -> None:
    assert (
        method_of("fedseq(4) + sam(0.1)")
        .stack()
        .endswith("topology: chains(groups=4, draw='share')")
    )
    assert method_of("fedvc(8)").stack() == "virtual clients: 8 examples each, drawn by size"


@pytest.mark.parametrize(
    ("clients", "groups", "chains"), [(10, 4, 2), (5, 4, 1), (1, 4, 1), (20, 4, 4), (9, 10, 4)]
)
def test_the_share_that_is_drawn(clients: int, groups: int, chains: int) -> None:
    """m = max(1, floor(C N_S)), C the share of the 20 clients that a star would draw."""
    exp = ff.experiment(
        f"fedseq({groups})", ON, rounds=3, model="logistic", clients_per_round=clients
    )
    setup = prepare(exp)
    assert [len(setup.server.select(t)["server"]) for t in range(3)] == [chains] * 3
    assert exp.topology.smallest_cohort(setup.server.population) == chains
    assert exp.topology.expected_clients(setup.server.population) == 3 * chains * 20 // groups


def test_different_topologies_in_one_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "compare",
        "fedavg",
        "fedseq(groups=5) + sam(0.05)",
        "hfl(2, T_c=1)",
        "fedvc(8)",
        "--on",
        ON,
        "--quiet",
    ]
    more = [
        "--rounds",
        "2",
        "--clients-per-round",
        "4",
        "--model",
        "logistic",
        "--out",
        str(tmp_path / "study"),
    ]
    assert main([*words, *more]) == 0
    printed = capsys.readouterr().out
    assert "fedseq(groups=5) + sam(rho=0.05)" in printed
    plan = json.loads((tmp_path / "study/study.json").read_text())["runs"]
    assert [one["experiment"]["topology"] for one in plan] == [
        "star()",
        "chains(groups=5, draw='share')",
        "hierarchy(2, every=1)",
        "star()",
    ]
    assert [one["experiment"]["sampler"]["kind"] for one in plan] == ["uniform"] * 3 + ["by_size"]
    assert main(["resume", str(tmp_path / "study"), "--quiet"]) == 0
    assert capsys.readouterr().out == printed


def test_virtual_clients() -> None:
    """FedVC is the sampler, the requests and the weights of three options."""
    options = {"sampler": ClientSampler(clients=2, kind="by_size"), "weighting": "uniform"}
    local = experiment().local
    apart = result(experiment(local=replace(local, virtual=6), **options))
    found = result(experiment("fedvc(6)"))
    assert timeless(found.rows) == timeless(apart.rows)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "fedseq(2)",
        {"topology": "star()"},
        r"topology=star\(\) contradicts the method fedseq\(groups=2\), which bri",
    ),
    ("fedseq(2)", {"topology": "chains(groups=2)"}, "contradicts the method"),
    ("hfl(2)", {"topology": "hierarchy(3)"}, "contradicts the method"),
    (
        "fedvc(5)",
        {"sampler": ClientSampler(clients=2, kind="uniform")},
        "sampler='uniform' contradicts .* brings 'by_size'",
    ),
    ("fedvc(5)", {"weighting": "sized"}, "weighting='sized' contradicts the method"),
    ("fedvc(5)", {"local": LocalTraining(virtual=6)}, "virtual=6 contradicts .* brings 5"),
]


@pytest.mark.parametrize(("method", "more", "words"), REFUSED)
def test_given_values_must_not_contradict(method: str, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        experiment(method, **more)


def test_given_values_may_be_the_same() -> None:
    both = experiment("fedseq(2)", topology="chains(groups=2, draw='share')")
    assert both.as_json() == experiment("fedseq(2)").as_json()
    sampler = ClientSampler(clients=2, kind="by_size")
    assert (
        experiment("fedvc(5)", sampler=sampler, weighting="uniform").as_json()
        == experiment("fedvc(5)").as_json()
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "fedseq(2) + hfl(2)",
            r"fedseq\(groups=2\) and hfl\(clusters=2\) both set the topology",
        ),
        ("fedseq(2) + sam(0.1) + fedcyclic()", "both set the topology"),
        ("chain(fedseq(2), fedseq(2))", "both set the topology"),
        ("fedvc(5) + fedvc(5)", "both make clients virtual"),
        ("fedvc(5) + mime()", "needs uniform weighting of clients"),
        ("centralised() + fedseq(2)", "has no server, so chains"),
        ("fedseq('two')", "groups must be a number or a grouping"),
        ("hfl(2, T_c=0)", "hfl: T_c must be a whole number of at least 1"),
        ("fedvc(0)", "n must be a whole number of at least 1"),
    ],
)
def test_sums_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(ff.FedflatError, match=words):
        method_of(text)


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["run", "fedseq(4)", "--topology", "star", "--on", ON, "--rounds", "1", "--quiet"])
        == 2
    )
    assert "topology=star() contradicts the method fedseq(groups=4)" in capsys.readouterr().err
