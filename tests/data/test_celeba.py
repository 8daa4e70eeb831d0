"""CelebA in its published layout and in LEAF's form, in miniature."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fedflat.data.domain_inputs import with_known_domains
from fedflat.data.federation import PartitionedFederation
from fedflat.data.files.paths import set_data_dir
from fedflat.data.sets.celeba import FACETS
from fedflat.errors import DataError, SettingError
from fedflat.models.cnn import leaf_celeba
from fedflat.registry.specs import parse

NAMES = ("5_o_Clock_Shadow", *FACETS[:3], "Smiling", *FACETS[3:])
OWNERS = [7] * 6 + [3] * 4 + [12] * 10
"""The second celebrity has fewer than five images."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "celeba"
    (place / "img_align_celeba").mkdir(parents=True)
    rng = np.random.default_rng(0)
    bits = rng.integers(2, size=(len(OWNERS), len(NAMES)))
    lines = [str(len(OWNERS)), " ".join(NAMES)]
    for i, row in enumerate(bits):
        name = f"{i + 1:06d}.jpg"
        Image.fromarray(np.full((218, 178, 3), 10 * i, np.uint8)).save(
            place / "img_align_celeba" / name
        )
        lines.append(f"{name}  " + "  ".join(str(2 * bit - 1) for bit in row))
    (place / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (place / "identity_CelebA.txt").write_text(
        "".join(f"{i + 1:06d}.jpg {owner}\n" for i, owner in enumerate(OWNERS))
    )
    np.save(place / "bits.npy", bits)
    set_data_dir(tmp_path)
    yield place
    set_data_dir(None)


def opened(text: str) -> PartitionedFederation:
    fed = parse(text, "data set").open(0)
    assert isinstance(fed, PartitionedFederation)
    return fed


def test_celebrities_with_five_images_are_clients(folder: Path) -> None:
    fed = opened("celeba(clients=2)")
    assert sorted(len(fed.data(k)) for k in range(2)) == [5, 9]  # 90 % of 6 and of 10
    assert len(fed.test) == 2
    batch = fed.data(0).batch(torch.arange(2), torch.float32)
    assert batch.inputs.shape == (2, 3, 84, 84)
    assert batch.inputs.min() >= 0
    assert 100 < fed.data(1).batch(torch.arange(9), torch.float32).inputs.max() <= 255


def test_labels_and_domains_are_the_attributes(folder: Path) -> None:
    bits = np.load(folder / "bits.npy")
    fed = opened("celeba(clients=2)")
    domains = fed.train.domains
    assert domains is not None
    places = [i for i, owner in enumerate(OWNERS) if owner != 3]
    assert fed.train.targets.tolist() == bits[places, NAMES.index("Smiling")].tolist()
    columns = [NAMES.index(facet) for facet in FACETS]
    expected = [
        tuple(f"{facet}={bits[i, c]}" for facet, c in zip(FACETS, columns, strict=True))
        for i in places
    ]
    assert list(domains.each) == expected
    numbered = with_known_domains(fed, 32)
    numbers = numbered.data(0).batch(torch.arange(3), torch.float32).inputs[1]
    index = numbered.data(0).index[:3]
    weights = 2 ** np.arange(4, -1, -1)
    assert numbers.tolist() == [int(bits[places[i]][columns] @ weights) for i in index]


def test_leafs_own_files(folder: Path) -> None:
    for part, users in (("train", {"7": [0, 1, 2], "3": [6, 7]}), ("test", {"7": [3], "3": [8]})):
        data = {
            user: {"x": [f"{i + 1:06d}.jpg" for i in rows], "y": [i % 2 for i in rows]}
            for user, rows in users.items()
        }
        document = {
            "users": list(users),
            "num_samples": [len(rows) for rows in users.values()],
            "user_data": data,
        }
        (folder / part).mkdir()
        (folder / part / "all_data.json").write_text(json.dumps(document))
    fed = opened("celeba(clients=2, leaf=True)")
    assert [fed.data(k).targets.tolist() for k in range(2)] == [[0, 1, 0], [0, 1]]
    assert fed.test.targets.tolist() == [1, 0]
    assert fed.test.domains is not None


def test_files_that_do_not_belong_together(folder: Path) -> None:
    attributes = folder / "list_attr_celeba.txt"
    whole = attributes.read_text().splitlines()
    attributes.write_text("\n".join(["19", *whole[1:-1]]))
    with pytest.raises(DataError, match=r"no attributes of 1 of 20 images.*000020\.jpg"):
        opened("celeba(clients=2)")
    attributes.write_text("\n".join(["20", *whole[1:-1]]))
    with pytest.raises(DataError, match="names 19 images, and its first line says 20"):
        opened("celeba(clients=2)")
    attributes.write_text("\n".join([*whole[:5], whole[5] + " 1", *whole[6:]]))
    with pytest.raises(DataError, match="has 8 of 7 values"):
        opened("celeba(clients=2)")
    attributes.write_text("\n".join([whole[0], whole[1].replace("Wavy_Hair", "Hat"), *whole[2:]]))
    with pytest.raises(DataError, match="Wavy_Hair is missing"):
        opened("celeba(clients=2)")
    attributes.write_text("\n".join(whole))
    (folder / "img_align_celeba" / "000003.jpg").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of 20 images.*000003\.jpg"):
        opened("celeba(clients=2)")
    (folder / "identity_CelebA.txt").write_text("000001.jpg\n")
    with pytest.raises(DataError, match="must have lines such as"):
        opened("celeba(clients=2)")


def test_more_clients_than_celebrities(folder: Path) -> None:
    with pytest.raises(SettingError, match="celebrities with 5 images or more, found 2"):
        opened("celeba(clients=3)")


def test_the_network_normalizes_by_the_batch_in_tests_too() -> None:
    net = leaf_celeba().build((3, 84, 84), 2).eval()
    x = 255 * torch.rand(6, 3, 84, 84, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        alone, together = net(x[:2]), net(x)[:2]
    assert not torch.allclose(alone, together)
    assert not list(net.buffers())
    sizes = [84]
    for _ in range(4):
        sizes.append(-(-sizes[-1] // 2))
    assert sizes == [84, 42, 21, 11, 6]
    assert net.fc.in_features == 32 * 6 * 6
    assert sum(p.numel() for p in net.parameters()) == 31_202
    femnist = parse("mcmahan_cnn(hidden=2048)", "model").build((1, 28, 28), 62)
    assert sum(p.numel() for p in femnist.parameters()) == 6_603_710
