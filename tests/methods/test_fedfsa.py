"""FedFSA: which layers can be chosen, how they are scored, and who is chosen in a tie."""

from __future__ import annotations

import pytest
import torch

from client.stages import vector, visiting
from fedflat import resnet20
from fedflat.client.piece import ModelInfo
from fedflat.core.flat import Layout
from fedflat.errors import SettingError
from fedflat.experiments.prepare import prepare
from fedflat.methods.fedfsa import Fsa, eligible
from methods.test_centralised import experiment

THREE = Layout(("a.weight", "b.weight", "c.weight"), ((2, 1), (2, 1), (2, 1)), (), ())


def chosen(piece: Fsa, start: torch.Tensor, stop: torch.Tensor) -> list[int]:
    v = visiting(piece, start, THREE, end=stop)
    assert torch.equal(piece.end(v, stop), stop)
    return v.state["chosen"].tolist()  # type: ignore[no-any-return]


def test_scores() -> None:
    one, two = vector(1.0, 3.0, 2.0), vector(0.0, 1.0, 4.0)
    assert float(Fsa(0.1, 0.2, 1, "mse")._score(one, two)) == pytest.approx((1 + 4 + 4) / 3)
    # scaled to (0, 1, 0.5) and (0, 0.25, 1)
    assert float(Fsa(0.1, 0.2, 1)._score(one, two)) == pytest.approx((0.75**2 + 0.5**2) / 3)
    flat = vector(5.0, 5.0, 5.0)
    for before, after in ((flat, one), (one, flat), (flat, flat + 1)):
        assert float(Fsa(0.1, 0.2, 1)._score(before, after)) == 0


def test_ties_go_to_the_lower_layer_and_reverse_leaves_out_who_stood_still() -> None:
    start, zero = vector(0.0, 1.0, 0.0, 1.0, 0.0, 1.0), 0.0
    same = start + vector(1.0, 1.0, 1.0, 1.0, zero, zero)
    assert chosen(Fsa(0.1, 0.2, 1, "mse"), start, same) == [0]
    assert chosen(Fsa(0.1, 0.2, 1, "mse", "reverse"), start, same) == [0]
    assert chosen(Fsa(0.1, 0.2, 3, "mse", "reverse"), start, same) == [0, 1]
    assert chosen(Fsa(0.1, 0.2, 3, "mse"), start, same) == [0, 1, 2]
    assert chosen(Fsa(0.1, 0.2, 2, "mse", "reverse"), start, start) == []


def test_the_larger_radius_is_in_the_chosen_layers() -> None:
    piece = Fsa(0.1, 0.9, 1)
    w = torch.zeros(6, dtype=torch.float64)
    v = visiting(piece, w, THREE, state={"chosen": torch.tensor([1])})
    piece.begin(v, w)
    places: list[torch.Tensor] = []

    def grad(at: torch.Tensor) -> torch.Tensor:
        places.append(at)
        return vector(3.0, 4.0, 0.0, 12.0, 0.0, 0.0)

    piece.gradient(v, grad, w)
    torch.testing.assert_close(places[1], vector(0.3, 0.4, 0.0, 9 * 1.2, 0.0, 0.0) / 13)


def test_layers_that_fsa_can_choose() -> None:
    """No biases, no normalisation, no shortcuts: nineteen convolutions and the linear layer of
    ResNet-20."""
    names = eligible(Layout.of(resnet20().build((3, 8, 8), 10)))
    assert len(names) == 1 + 3 * 3 * 2 + 1
    assert not any(word in name for name in names for word in ("norm", "shortcut", "bias"))
    layout = Layout(
        ("bn.weight", "conv.weight", "fc.bias", "fc.weight"),
        ((3,), (3, 1, 2, 2), (2,), (2, 3)),
        (),
        (),
    )
    assert eligible(layout) == ["conv.weight", "fc.weight"]


def test_fsa_refuses_more_layers_than_there_are() -> None:
    prepare(experiment("fedfsa(top=2)"))
    with pytest.raises(SettingError) as caught:
        prepare(experiment("fedfsa(top=3)"))
    reason = "3 layers are to be chosen, but the model has only 2 eligible ones (fc1.weight, fc2.weight). Use top=2"
    assert reason in str(caught.value)
    module = torch.nn.Linear(2, 2)
    bare = Layout(("scale",), ((2,),), (), ())
    with pytest.raises(SettingError, match=r"only 0 eligible ones \(none\)"):
        Fsa(0.1, 0.2, 1).check(ModelInfo((), module, bare))
