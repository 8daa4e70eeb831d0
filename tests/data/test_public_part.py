"""A public set for a server, taken out of the test set."""

from __future__ import annotations

import pytest
import torch

import fedflat as ff
from fedflat.errors import SettingError
from fedflat.experiments.prepare import prepare
from fedflat.registry.specs import parse


def test_the_public_part_takes_examples_of_each_class() -> None:
    whole = ff.digits().open(3)
    public, rest = (
        parse(f"{name}(digits(lda(0), clients=20), per_class=4)", "data set").open(3)
        for name in ("public_part", "without_public_part")
    )
    taken = public.data(0)
    assert public.population == 1
    assert torch.bincount(taken.labels).tolist() == [4] * 10
    assert sorted([*taken.index.tolist(), *rest.test.index.tolist()]) == whole.test.index.tolist()
    assert torch.equal(rest.test.index, public.test.index)
    assert rest.population == 20
    assert torch.equal(rest.data(7).labels, ff.digits(ff.lda(0), clients=20).open(3).data(7).labels)


def test_how_clients_are_dealt_out_does_not_matter() -> None:
    one, other = (
        parse(f"public_part({on})", "data set").open(1)
        for on in ("digits()", "digits(lda(0), clients=7)")
    )
    assert torch.equal(one.data(0).index, other.data(0).index)
    assert not torch.equal(
        one.data(0).index, parse("public_part(digits())", "data set").open(2).data(0).index
    )


def test_refused() -> None:
    with pytest.raises(SettingError, match="nothing of it is left to test on"):
        ff.public_part(ff.digits(), per_class=1000).open(0)
    with pytest.raises(SettingError, match="these examples do not have one class each"):
        ff.public_part(ff.diabetes()).open(0)
    with pytest.raises(SettingError, match="public_part: on must be a data set"):
        ff.public_part("digits")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="without_public_part: per_class must be"):
        ff.without_public_part(ff.digits(), per_class=0)


@pytest.mark.parametrize(
    ("on", "server", "words"),
    [
        (
            "digits()",
            "public_part(digits())",
            "100 examples of the server's public set are also in the test set",
        ),
        ("digits()", None, r"confidence\(\) needs data of the server's own"),
        ("without_public_part(digits())", "public_part(digits())", None),
        ("digits()", "digits(iid(), clients=2)", None),
    ],
)
def test_groups_by_confidence_need_public_examples(
    on: str, server: str | None, words: str | None
) -> None:
    settings = {
        "rounds": 1,
        "topology": "chains(groups=kmeans(psi='confidence', d_min=50))",
        "clients_per_round": 1,
    }
    exp = ff.experiment(
        "fedavg", on, **settings, **({} if server is None else {"server_data": server})
    )
    if words is None:
        prepare(exp)
        return
    with pytest.raises(SettingError, match=words):
        prepare(exp)
