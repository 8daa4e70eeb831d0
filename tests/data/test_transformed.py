"""Known domains by transformation: the changed images, the domain of each client, refusals."""

from __future__ import annotations

import pytest
import torch

from fedflat.data.examples import Examples
from fedflat.data.federation import PartitionedFederation
from fedflat.data.sets.transformed import INKS, blurred, coloured, inked, rotated
from fedflat.errors import SettingError
from fedflat.registry.specs import parse


def opened(text: str, seed: int = 0) -> PartitionedFederation:
    fed = parse(text, "data set").open(seed)
    assert isinstance(fed, PartitionedFederation)
    return fed


def test_each_transformation_on_a_known_image() -> None:
    image = torch.tensor([[0.0, 255.0], [51.0, 102.0]]).view(1, 1, 2, 2)
    assert rotated(image, 1, 4).flatten().tolist() == [255, 102, 0, 51]
    assert rotated(image, 1, 2).flatten().tolist() == [102, 51, 255, 0]
    assert torch.equal(rotated(image, 0, 4), image)
    red = coloured(image, 1, 4)
    assert red.shape == (1, 3, 2, 2)
    assert torch.equal(red[:, :1], image)
    assert torch.allclose(red[:, 1], 0.35 * image[:, 0])
    assert inked(image, 1, 2).flatten().tolist() == [255, 0, 204, 153]
    assert inked(image, 2, 4).flatten().tolist() == [127.5, 255, 153, 178.5]
    assert len(set(INKS)) == len(INKS)


def test_a_blur_is_a_gaussian_that_keeps_constants_and_sums() -> None:
    flat = torch.full((1, 1, 9, 9), 77.0)
    assert torch.allclose(blurred(flat, 2, 4), flat)
    point = torch.zeros(1, 1, 31, 31)
    point[0, 0, 15, 15] = 100.0
    for sigma in (1, 2, 3):
        spread = blurred(point, sigma, 4)[0, 0]
        assert spread.sum() == pytest.approx(100, abs=1e-3)
        offsets = torch.arange(31.0) - 15
        variance = (spread.sum(0) * offsets**2).sum() / 100
        assert variance == pytest.approx(sigma**2, rel=0.04)  # cut at three deviations


def test_clients_have_one_domain_each_in_turn() -> None:
    plain = opened("digits(iid(), clients=8)")
    fed = opened("transformed(digits(iid(), clients=8), rotation=4)")
    domains = [fed.domain(client) for client in range(8)]
    assert sorted(domains) == sorted(
        [(f"rotation={turn}",) for turn in ("000", "090", "180", "270")] * 2
    )
    for client in range(8):
        assert torch.equal(fed.parts[client], plain.parts[client])
        (index,) = fed.parts[client][:1]
        before, after = plain.data(client), fed.data(client)
        turns = ["000", "090", "180", "270"].index(domains[client][0].removeprefix("rotation="))
        assert isinstance(before.examples, Examples)
        assert isinstance(after.examples, Examples)
        expected = before.examples.inputs[index].rot90(turns, (1, 2))
        assert torch.allclose(after.examples.inputs[index], expected, atol=1e-6)
    assert fed.test.domains is not None
    assert len(set(fed.test.domains.each)) == 4
    assert torch.equal(fed.test.examples.targets, plain.test.examples.targets)


def test_domains_by_image_of_two_facets() -> None:
    fed = opened("transformed(digits(iid(), clients=4), rotation=2, ink=2, by='image')")
    domains = fed.data(0).domains
    assert domains is not None
    assert domains.facets == ("rotation", "ink")
    assert len(set(domains.each)) == 4
    assert {domain[0] for domain in domains.each} == {"rotation=000", "rotation=180"}


def test_what_clients_hold_out_has_their_domain() -> None:
    fed = opened("transformed(digits(iid(), clients=6, split=0.7, pool=True), ink=3)")
    assert fed.held_out is not None
    own = [set(fed.data(client).own_test.domains.each) for client in range(6)]  # type: ignore[union-attr]
    assert own == [{fed.domain(client)} for client in range(6)]
    assert fed.test.domains is not None
    assert fed.test.domains.each == tuple(
        fed.domain(client) for client in range(6) for _ in fed.held_out[client]
    )


def test_the_seed_decides() -> None:
    text = "transformed(digits(iid(), clients=8), blur=2)"
    assert opened(text).test.domains == opened(text).test.domains
    assert opened(text).test.domains != opened(text, seed=1).test.domains


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("transformed(digits())", "one domain only"),
        ("transformed(digits(), rotation=5)", "rotation"),
        ("transformed(digits(), blur=2, by='pixel')", "by"),
        ("transformed(diabetes(), blur=2)", "grey or RGB"),
        ("transformed(synthetic(), blur=2)", "made when asked for"),
        ("transformed(3, blur=2)", "must be a data set"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        opened(text)
