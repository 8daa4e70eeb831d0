"""Label flipping: which clients attack, which labels they swap, and that all processes agree."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedflat as ff
from experiments.small import begin, final, go_on, rows, timeless
from fedflat import cifar100, label_flip
from fedflat.cli.main import main
from fedflat.client.attacker import Swaps, attackers_in
from fedflat.client.learner import Learner
from fedflat.data.federation import DataSpec, PartitionedFederation
from fedflat.data.sets.cifar import FINE_TO_COARSE
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import remarks
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.registry import specs as spelling
from fedflat.registry.builtin_modules import import_all
from fedflat.registry.specs import parse
from fedflat.report import collect
from fedflat.simulation.attacks.attack import AttackedRun
from fedflat.simulation.attacks.label_flip import LabelFlip

RNG = torch.Generator().manual_seed(0)
DATA = [(torch.randn(20, 2, generator=RNG), torch.arange(20) % 10) for _ in range(10)]
ON = clients_of(DATA, test=DATA[0], classes=10)
RUN: dict[str, Any] = {
    "on": "digits(lda(100), clients=20)",
    "rounds": 4,
    "model": "mlp(hidden=[4])",
    "clients_per_round": 5,
    "lr": 0.1,
    "eval_every": 1,
}
FLIP = "label_flip(L_S=0.5, L=0.5, pairs=[[0, 2], [3, 5]])"
CHAINS = "chains(groups=5)"


def victim(on: DataSpec = ON, *, groups: int = 0, seed: int = 0) -> AttackedRun:
    """A run that can be attacked, with superclients of clients that follow each other."""
    fed = on.open(seed)
    each = np.array_split(np.arange(fed.population), groups) if groups else []
    return AttackedRun(
        on, fed, Learner("mlp", (2,), 10, seed=0), [tuple(group.tolist()) for group in each], seed
    )


def names_only(classes: int, on: DataSpec, seed: int) -> AttackedRun:
    """What pairs are drawn from: the number of classes, and the data set by name."""
    fed = clients_of(DATA[:1], test=DATA[0], classes=classes).open(0)
    return AttackedRun(on, fed, None, [], seed)  # type: ignore[arg-type]


def test_the_labels_of_an_attacker() -> None:
    """The labels 0, 1, 2, 3, 5, 2 under (0, 2) and (3, 5); and swapped again."""
    y = torch.tensor([0, 1, 2, 3, 5, 2])
    honest = (
        clients_of([(torch.zeros(6, 1), y)], test=(torch.zeros(1, 1), y[:1]), classes=6)
        .open(0)
        .data(0)
    )
    liar = Swaps(((0, 2), (3, 5)))
    assert liar.data(honest).labels.tolist() == [2, 1, 0, 5, 3, 0]
    assert liar.data(liar.data(honest)).labels.tolist() == y.tolist()
    assert honest.labels.tolist() == y.tolist()
    assert parse(repr(liar), "attacker") == liar


@given(
    labels=st.lists(st.integers(0, 9), min_size=1, max_size=30), pairs=st.permutations(range(10))
)
def test_swapped_twice_everything_is_as_it_was(labels: list[int], pairs: list[int]) -> None:
    y = torch.tensor(labels)
    fed = clients_of(
        [(torch.zeros(len(y), 1), y)] * 2, test=(torch.zeros(1, 1), y[:1]), classes=10
    ).open(0)
    liar = Swaps(tuple(zip(pairs[:3], pairs[3:6], strict=True)))
    once = liar.data(fed.data(1))
    assert torch.equal(liar.data(once).labels, y)
    outside = ~torch.isin(y, torch.tensor(pairs[:6]))
    assert torch.equal(once.labels[outside], y[outside])
    assert not (once.labels[~outside] == y[~outside]).any()


@pytest.mark.parametrize(
    ("L_S", "L", "groups", "bad", "liars"),
    [
        (0.1, 0.1, 4, 1, 1),  # floor(0.4) and floor(0.5): one of each, at least
        (0.5, 0.5, 4, 2, 4),  # two superclients of five, floor(2.5) in each
        (0.5, 0.1, 4, 2, 2),
        (1.0, 1.0, 4, 4, 20),
        (0.3, 0.5, 10, 3, 3),  # three superclients of two
        (0.29, 1.0, 20, 5, 5),  # floor(5.8)
        (0.5, 0.5, 0, 0, 5),  # no superclients: floor(0.25 * 20) of everybody
        (0.1, 0.1, 0, 0, 1),
        (0.3, 0.5, 0, 0, 3),
        (1.0, 1.0, 0, 0, 20),
    ],
)
def test_how_many_attack(L_S: float, L: float, groups: int, bad: int, liars: int) -> None:
    on = clients_of(DATA * 2, test=DATA[0], classes=10)
    attacked = victim(on, groups=groups)
    found = label_flip(L_S=L_S, L=L, pairs=[[0, 2]]).attacking_clients(attacked)
    assert len(set(found)) == len(found) == liars
    assert sum(bool(set(group) & set(found)) for group in attacked.superclients) == bad


def test_shares_are_decimal_numbers() -> None:
    """0.29 * 100 is 28.999999999999996 in binary."""
    on = clients_of(DATA[:1] * 100, test=DATA[0], classes=10)
    assert (
        len(label_flip(L_S=0.29, L=1, pairs=[[0, 2]]).attacking_clients(victim(on, groups=100)))
        == 29
    )


def test_only_those_attack_who_hold_a_swapped_label() -> None:
    """Client k holds the labels k and k + 1: of 2 and 3 there are some at the clients 1, 2 and
    3."""
    x = torch.zeros(2, 1)
    on = clients_of(
        [(x, torch.tensor([k, k + 1])) for k in range(6)], test=(x, torch.tensor([0, 1])), classes=7
    )
    flip = label_flip(L_S=1, L=1, pairs=[[2, 3]])
    assert flip.holders(victim(on)) == {1, 2, 3}
    assert (
        flip.attacking_clients(victim(on))
        == flip.attacking_clients(victim(on, groups=2))
        == [1, 2, 3]
    )
    assert flip.attacking_clients(victim(on, groups=3)) == [1, 2, 3]
    one = label_flip(
        L_S=0.1, L=1, pairs=[[0, 4]]
    )  # held by 0, 3 and 4, in groups of two: the last holds one of them
    for seed in range(20):
        assert one.attacking_clients(victim(on, groups=3, seed=seed)) in ([0], [3], [4])


def test_a_larger_share_holds_the_smaller_one() -> None:
    on = clients_of(DATA * 2, test=DATA[0], classes=10)
    found = [
        set(label_flip(L_S=a, L=b, pairs=[[0, 2]]).attacking_clients(victim(on, groups=4)))
        for a, b in [(0.25, 0.2), (0.25, 0.6), (0.5, 0.6), (1, 1)]
    ]
    assert [len(some) for some in found] == [1, 3, 6, 20]
    assert found[0] < found[1] < found[2] < found[3]


def test_attackers_are_drawn_by_the_seed() -> None:
    flip = label_flip(L_S=0.5, L=0.2, pairs=[[0, 2]])  # two of four superclients, one client each
    on = clients_of(DATA * 2, test=DATA[0], classes=10)
    assert flip.attacking_clients(victim(on, groups=4)) == flip.attacking_clients(
        victim(on, groups=4)
    )
    attacked = victim(on, groups=4)
    drawn = Counter(
        client
        for seed in range(200)
        for client in flip.attacking_clients(replace(attacked, seed=seed))
    )
    assert all(
        5 <= drawn[client] <= 40 for client in range(20)
    )  # 20 expected, standard deviation 4.2


def test_fixed_and_random_pairs() -> None:
    """The four labels 0, 2, 3 and 5 have three pairings; one pair has one."""
    fixed, drawn = (label_flip(pairs=[[0, 2], [3, 5]], draw=draw) for draw in ("fixed", "random"))
    run = victim()
    assert {fixed.pairs_of_client(run, client) for client in range(9)} == {((0, 2), (3, 5))}
    pairings = [
        frozenset(map(frozenset, drawn.pairs_of_client(run, client))) for client in range(60)
    ]
    three = [{(0, 2), (3, 5)}, {(0, 3), (2, 5)}, {(0, 5), (2, 3)}]
    assert set(pairings) == {frozenset(map(frozenset, one)) for one in three}
    assert all(10 <= count <= 30 for count in Counter(pairings).values())
    one = label_flip(pairs=[[0, 2]], draw="random")
    assert {frozenset(one.pairs_of_client(run, client)[0]) for client in range(9)} == {
        frozenset({0, 2})
    }


@given(seed=st.integers(0, 10**6), count=st.integers(1, 5))
def test_drawn_pairs_and_their_pairings_have_the_same_labels(seed: int, count: int) -> None:
    attacked = names_only(10, ON, seed)
    flip = label_flip(count=count, draw="random")
    labels = flip.labels(attacked)
    assert len(set(labels)) == 2 * count
    for client in range(4):
        assert (
            sorted(label for pair in flip.pairs_of_client(attacked, client) for label in pair)
            == labels
        )


@given(seed=st.integers(0, 10**6))
def test_pairs_within_and_across_superclasses(seed: int) -> None:
    """Twenty labels in ten pairs, by CIFAR-100's own map."""
    coarse = np.array(FINE_TO_COARSE)
    for among in ("intra", "extra"):
        pairs = label_flip(count=10, among=among).chosen_pairs(names_only(100, cifar100(), seed))
        labels = [label for pair in pairs for label in pair]
        assert len(set(labels)) == 20
        shared = [coarse[a] == coarse[b] for a, b in pairs]
        assert all(shared) if among == "intra" else not any(shared)
        assert len({coarse[label] for label in labels}) == (10 if among == "intra" else 20)


@pytest.mark.parametrize(
    ("count", "among", "classes", "most"),
    [(6, "any", 10, 5), (21, "intra", 100, 20), (11, "extra", 100, 10)],
)
def test_too_many_pairs_are_refused(count: int, among: str, classes: int, most: int) -> None:
    why = (
        rf"{count} pairs \({among}\) cannot be sampled from {classes} classes\. Use at most {most}"
    )
    with pytest.raises(SettingError, match=why):
        label_flip(count=count, among=among).chosen_pairs(names_only(classes, cifar100(), 0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"pairs": [[0, 0]]},
        {"pairs": [[0, 1], [1, 2]]},
        {"pairs": [[0, 1, 2]]},
        {"pairs": [0, 1]},
        {"pairs": 3},
        {"pairs": []},
        {"pairs": [[0, 1.5]]},
        {"pairs": ["01"]},
        {"pairs": [[-1, 2]]},
        {"L_S": 1.5},
        {"L_S": 0},
        {"L": -0.1},
        {"L": "half"},
        {"count": 0},
        {"draw": "each"},
        {"among": "intr"},
        {"pairs": [[0, 1]], "count": 2},
        {"pairs": [[0, 1]], "among": "intra"},
    ],
)
def test_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="label_flip: "):
        label_flip(**wrong)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"attack": "label_flip(pairs=[[3, 10]])"},
            r"pair \(3, 10\) has a class that does not exist \(0 to 9\)",
        ),
        (
            {"attack": "label_flip(among='intra')"},
            r"among='intra' needs superclasses; digits\(.*\) has none",
        ),
        (
            {"attack": "label_flip()", "on": "diabetes(clients=6)"},
            "classes are swapped, and diabetes.* has none",
        ),
        (
            {"attack": "label_flip()", "on": "synthetic(clients=9)"},
            "synthetic.* are generated on access",
        ),
        (
            {"attack": "label_flip()", "method": "centralised"},
            "no clients that could attack. Leave --attack out",
        ),
        ({"attack": "fedavg"}, "'fedavg' is a method, not an attack"),
        ({"attack": "label_flipp"}, "unknown attack 'label_flipp'. Did you mean 'label_flip'"),
        ({"attack": 3}, "attack must be a registered attack or its text"),
    ],
)
def test_what_cannot_be_attacked_is_reported(more: dict[str, Any], why: str) -> None:
    with pytest.raises(ff.FedflatError, match=why):
        ff.run(**{"method": "fedavg", **RUN, **more, "quiet": True})


def test_no_client_holds_it() -> None:
    on = clients_of(
        [(torch.zeros(2, 1), torch.tensor([0, 1]))],
        test=(torch.zeros(1, 1), torch.tensor([0])),
        classes=9,
    )
    with pytest.raises(
        SettingError, match=r"no client has an example of labels 4 and 5\. Swap other classes"
    ):
        label_flip(pairs=[[4, 5]]).check(victim(on))


def test_its_text_is_printed_again(tmp_path: Path) -> None:
    spec = label_flip(L_S=0.3, L=0.1, pairs=[[0, 2], [3, 5]], draw="random")
    assert isinstance(spec, LabelFlip)
    assert parse(repr(spec), "attack") == spec
    ff.run("fedavg", **{**RUN, "rounds": 1, "attack": spec}, out=tmp_path / "run", quiet=True)
    assert read_record(tmp_path / "run").experiment.attack == repr(spec)


@pytest.mark.parametrize("topology", ["star()", CHAINS])
def test_attackers_train_on_what_they_say(topology: str) -> None:
    """The run with the attack is the run on data that were swapped beforehand."""
    exp = ff.experiment("fedavg", **RUN, topology=topology, attack=FLIP)
    setup = prepare(exp)
    fed = setup.fed
    assert isinstance(fed, PartitionedFederation)
    swap = torch.tensor([2, 1, 0, 5, 4, 3, 6, 7, 8, 9])
    liars = set(attackers_in(setup.job))
    assert len(liars) == (
        5 if topology == "star()" else 4
    )  # floor(20 / 4), and two superclients of four
    given = [
        (
            fed.data(k).examples.inputs[fed.parts[k]],
            swap[fed.data(k).labels] if k in liars else fed.data(k).labels,
        )
        for k in range(20)
    ]
    test = fed.test.batch(torch.arange(len(fed.test)), torch.float32)
    on = clients_of(given, test=(test.inputs, test.targets), classes=10)
    attacked = ff.train(exp)
    beforehand = ff.train(ff.experiment("fedavg", **{**RUN, "on": on}, topology=topology))
    assert torch.equal(attacked.model.params, beforehand.model.params)
    honest = ff.train(ff.experiment("fedavg", **RUN, topology=topology))
    assert not torch.equal(attacked.model.params, honest.model.params)
    assert attacked.final() == beforehand.final()


@pytest.mark.parametrize("topology", ["star()", CHAINS])
def test_every_request_agrees(topology: str) -> None:
    exp = ff.experiment("fedavg", **{**RUN, "rounds": 2}, topology=topology, attack=FLIP)
    here, there, stacked = (
        ff.train(exp, executor=one) for one in (ff.InProcess(1), Loopback(), ff.Stacked())
    )
    assert torch.equal(here.model.params, there.model.params)
    assert timeless(here.rows) == timeless(there.rows)
    assert torch.allclose(here.model.params, stacked.model.params, atol=1e-5)


@pytest.mark.slow
def test_workers_agree() -> None:
    exp = ff.experiment("fedavg", **RUN, topology=CHAINS, attack=FLIP)
    assert torch.equal(
        *(ff.train(exp, executor=one).model.params for one in (ff.InProcess(1), ff.Workers(1)))
    )


def test_what_is_for_testing_is_left_alone() -> None:
    on = "digits(clients=10, split=0.7)"
    setup = prepare(
        ff.experiment("fedavg", **{**RUN, "on": on, "attack": "label_flip(L_S=1, L=1)"})
    )
    assert len(attackers_in(setup.job)) == 10
    for client in range(10):
        honest = setup.fed.data(client)
        attacker = attackers_in(setup.job).get(client)
        lying = attacker.data(honest) if attacker else honest
        assert torch.equal(lying.own_test.labels, honest.own_test.labels)
        assert not torch.equal(lying.labels, honest.labels)


def test_the_accuracy_of_the_swapped_classes() -> None:
    """By hand: the mean over the four classes of the share of their test examples that are told
    right."""
    result = ff.run("fedavg", **{**RUN, "lr": 0.5, "rounds": 8}, attack=FLIP, quiet=True)
    setup = prepare(ff.experiment("fedavg", **RUN))
    batch = setup.fed.test.batch(torch.arange(len(setup.fed.test)), torch.float32)
    with torch.no_grad():
        right = (result.module()(batch.inputs).argmax(1) == batch.targets).double()
    by_hand = torch.stack([right[batch.targets == c].mean() for c in (0, 2, 3, 5)]).mean()
    last = result.rows[-1]
    assert last["tests"] == {"swapped": {"accuracy": pytest.approx(float(by_hand))}}
    assert last["models"]["server"]["tests"] == last["tests"]
    assert last["tests"]["swapped"]["accuracy"] != last["accuracy"]


def test_the_drop_against_the_run_without_an_attack(tmp_path: Path) -> None:
    """Of two seeds each, in Python, in the table and in the report; a run on other data is no
    twin."""
    short = {**RUN, "lr": 0.5, "rounds": 3}
    clean = ff.compare(["fedavg"], seeds=2, **short, out=tmp_path / "clean", quiet=True)
    lying = ff.compare(
        ["fedavg"], seeds=2, **short, attack=FLIP, out=tmp_path / "lying", quiet=True
    )
    by_hand = [one.final() - other.final() for one, other in zip(clean, lying, strict=True)]
    table = ff.summarise([*clean, *lying], None)
    assert [one.method for one in table] == [
        "fedavg()",
        f"fedavg(), attack={ff.parse(FLIP, 'attack')}",
    ]
    assert [one.seeds for one in table] == [2, 2]
    assert table[1].tests["drop"] == pytest.approx((np.mean(by_hand), np.std(by_hand, ddof=1)))
    assert "drop" not in table[0].tests
    [alone] = ff.summarise(lying, None)
    assert set(alone.tests) == {"swapped"}
    assert alone.method == "fedavg()"
    other = ff.run("fedavg", **{**short, "on": "digits(lda(10), clients=20)"}, quiet=True)
    assert "drop" not in ff.summarise([*lying, other], None)[0].tests
    text = repr(ff.Results([*clean, *lying]))
    assert "swapped %" in text
    assert "drop %" in text
    assert (
        "Drop: how much worse the accuracy is than that of the same run without its attack." in text
    )
    page = collect([tmp_path / "clean", tmp_path / "lying"])
    assert page["methods"][1]["tests"]["drop"] == pytest.approx(
        [np.mean(by_hand), np.std(by_hand, ddof=1)], abs=1e-4
    )
    assert "tests.swapped" in page["methods"][1]["curves"]


def test_stopped_and_resumed(tmp_path: Path) -> None:
    exp = ff.experiment("fedavg", **RUN, topology=CHAINS, attack=FLIP)
    begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "run", stop=2)
    go_on(exp, tmp_path / "run")
    assert final(tmp_path / "run") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "run")) == timeless(rows(tmp_path / "whole"))


def test_the_remark_before_the_run() -> None:
    for topology, output in (
        (CHAINS, "attack: 4 of 20 clients swap labels 0 and 2, 3 and 5, in 2 of 5 superclients"),
        ("star()", "attack: 5 of 20 clients swap labels 0 and 2, 3 and 5"),
    ):
        setup = prepare(ff.experiment("fedavg", **RUN, topology=topology, attack=FLIP))
        assert output in remarks(setup)


def test_an_attack_of_your_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is printed in docs/attacks.md."""
    text = (Path(__file__).parents[3] / "docs" / "attacks.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    import_all()  # what is registered from here on is forgotten afterwards
    for name in ("_REGISTRY", "_NAMES"):
        monkeypatch.setattr(spelling, name, dict(getattr(spelling, name)))
    exec(code, {"ff": ff, "dataclass": dataclass, "__name__": "__main__"})
    exp = ff.experiment("fedavg", **{**RUN, "rounds": 1}, attack="everybody_swaps")
    assert set(attackers_in(prepare(exp).job)) == set(range(20))
    assert ff.train(exp).rows


@pytest.mark.parametrize(
    ("method", "liars", "groups"),
    [
        ("fedasyncseq(groups=5, R=2)", 4, 5),
        ("fedcyclic()", 5, 0),
        ("hfl(clusters=2, T_c=2)", 5, 0),
        ("fedvc(8)", 5, 0),
    ],
)
def test_superclients_are_where_clients_stay_together(method: str, liars: int, groups: int) -> None:
    """Two superclients of four with two attackers each, or a quarter of all twenty."""
    setup = prepare(ff.experiment(method, **RUN, attack=FLIP))
    assert (
        len(attackers_in(setup.job)),
        len(setup.exp.topology.superclients(setup.server.population)),
    ) == (liars, groups)


def test_groups_that_clients_describe_themselves_for() -> None:
    """No client attacks before the groups are known; then attackers are in half of them."""
    exp = ff.experiment(
        "fedseq(groups=greedy(psi='labels', tau='gini', d_min=250, k_max=6))", **RUN, attack=FLIP
    )
    before = prepare(exp)
    assert not attackers_in(before.job)
    setup = collect_descriptions(before, RunFolder(), ff.InProcess(1), lambda earlier, place: {})
    groups = setup.exp.topology.superclients(setup.server.population)
    bad = [group for group in groups if set(group) & set(attackers_in(setup.job))]
    assert len(bad) == max(1, len(groups) // 2)
    assert len(attackers_in(setup.job)) == sum(max(1, len(group) // 2) for group in bad)


def test_attacks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "attacks"]) == 0
    output = capsys.readouterr().out
    assert "label_flip(L_S=0.1, L=0.5, " in output
    assert "gan(client=0, epochs=300, " in output
    assert "Use: --attack " in output
