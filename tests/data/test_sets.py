from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from data.miniature import write_cifar_files, write_idx_set
from fedflat import cifar10, cifar100, digits, fashion_mnist, iid, lda, mnist, pam, pathological
from fedflat.data.augment import CropFlip
from fedflat.data.federation import Federation
from fedflat.data.files.paths import set_data_dir
from fedflat.errors import DataError, SettingError, SpellingError
from fedflat.registry.specs import parse


@pytest.fixture
def files(tmp_path):
    """All sets in miniature; the arrays that were written."""
    written = {
        "mnist": write_idx_set(tmp_path / "all" / "mnist", 60, 20),
        "fashion_mnist": write_idx_set(tmp_path / "all" / "fashion-mnist", 60, 20, compressed=True),
        "cifar10": write_cifar_files(tmp_path / "all" / "cifar-10-batches-bin", "cifar10", 20),
        "cifar100": write_cifar_files(tmp_path / "all" / "cifar-100-binary", "cifar100", 200),
    }
    set_data_dir(tmp_path / "all")
    return written


def everything(fed: Federation) -> list[int]:
    return sorted(torch.cat(list(fed.parts)).tolist())


def test_digits_are_scikit_learns_with_a_fixed_stratified_test_set():
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    fed = digits(clients=10).open(0)
    assert fed.shape == (1, 8, 8)
    assert fed.train.inputs.dtype == torch.float32
    assert (float(fed.train.inputs.min()), float(fed.train.inputs.max())) == (0, 1)
    # Every fifth of each class is for testing.
    counts = np.bincount(y.astype(int))
    assert torch.bincount(fed.test.labels).tolist() == [n // 5 for n in counts]
    assert len(fed.train) + len(fed.test) == len(y) == 1797
    rows = {(*(row / 16).round(4), label) for row, label in zip(x, y, strict=True)}
    both = (
        torch.cat([fed.train.inputs, fed.test.examples.inputs]).flatten(1).double().numpy().round(4)
    )
    labels = torch.cat([fed.train.targets, fed.test.examples.targets]).tolist()
    assert {(*row, float(label)) for row, label in zip(both, labels, strict=True)} == rows
    other = digits(clients=10).open(1)
    assert torch.equal(other.test.examples.inputs, fed.test.examples.inputs)
    assert fed.train.augment is None


@pytest.mark.parametrize(
    ("spec", "shape", "train", "test", "mean", "std"),
    [
        (mnist(clients=6), (1, 28, 28), 60, 20, (0.1307,), (0.3081,)),
        (fashion_mnist(clients=6), (1, 28, 28), 60, 20, (0.2860,), (0.3530,)),
        (fashion_mnist(clients=6, normalise="fedfsa"), (1, 28, 28), 60, 20, (0.5,), (0.5,)),
        (
            cifar10(clients=10),
            (3, 32, 32),
            100,
            20,
            (0.4914, 0.4822, 0.4465),
            (0.2023, 0.1994, 0.2010),
        ),
        (
            cifar10(clients=10, normalise="fedgloss"),
            (3, 32, 32),
            100,
            20,
            (0.4914, 0.4822, 0.4465),
            (0.2470, 0.2434, 0.2616),
        ),
        (
            cifar100(clients=10),
            (3, 32, 32),
            200,
            200,
            (0.5071, 0.4867, 0.4408),
            (0.2675, 0.2565, 0.2761),
        ),
        (
            cifar100(clients=10, normalise="fedgloss"),
            (3, 32, 32),
            200,
            200,
            (0.5071, 0.4865, 0.4409),
            (0.2673, 0.2564, 0.2762),
        ),
    ],
)
def test_image_sets(files, spec, shape, train, test, mean, std):
    fed = spec.open(0)
    assert fed.shape == shape
    assert fed.population == spec.clients
    assert (len(fed.train), len(fed.test)) == (train, test)
    assert everything(fed) == list(range(train))
    assert fed.train.inputs.dtype == torch.uint8
    batch = fed.test.batch(torch.tensor([3, 0]), torch.float64)
    raw = fed.test.examples.inputs[[3, 0]].double() / 255
    for c, (m, s) in enumerate(zip(mean, std, strict=True)):
        torch.testing.assert_close(batch.inputs[:, c], (raw[:, c] - m) / s)
    assert torch.equal(batch.targets, fed.test.labels[[3, 0]])


def test_train_and_test_examples_are_those_of_the_files(files):
    fed = cifar10(clients=10).open(0)
    images, heads = files["cifar10"]
    np.testing.assert_array_equal(fed.train.inputs, images[:100])
    np.testing.assert_array_equal(fed.test.examples.inputs, images[100:])
    np.testing.assert_array_equal(fed.test.labels, heads[100:, 0])


def test_only_cifars_training_batches_are_augmented(files):
    fed = cifar10(clients=10).open(0)
    assert fed.train.augment == CropFlip()
    assert fed.test.examples.augment is None
    assert mnist(clients=6).open(0).train.augment is None
    assert cifar10(clients=10, augment=False).open(0).train.augment is None
    half = cifar10(clients=10, augment="feddyn", normalise="fedgloss").open(0).train
    assert half.augment == CropFlip(crop=0.5, border=(125, 123, 114))
    assert half.mean == (0.4914, 0.4822, 0.4465)
    assert cifar100(clients=10, augment="fedgloss").open(0).train.augment == CropFlip(alike=True)
    with pytest.raises(SettingError, match="augment"):
        cifar10(augment="fedsam")
    data, index, rng = fed.data(0), torch.arange(10), torch.Generator().manual_seed(0)
    plain = data.batch(index, torch.float32)
    assert not torch.equal(data.batch(index, torch.float32, rng).inputs, plain.inputs)
    assert torch.equal(data.batch(index, torch.float32).inputs, plain.inputs)


def test_cifar100_coarse_labels(files):
    fine, coarse = cifar100(clients=10).open(0), cifar100(clients=10, labels="coarse").open(0)
    assert (fine.classes, coarse.classes) == (100, 20)
    np.testing.assert_array_equal(coarse.train.targets, files["cifar100"][1][:200, 0])
    np.testing.assert_array_equal(fine.train.targets, files["cifar100"][1][:200, 1])


def test_pam_takes_the_coarse_labels_of_the_file(files):
    fed = cifar100(pam(), clients=20).open(0)
    assert everything(fed) == list(range(200))
    with pytest.raises(SettingError, match="no coarse labels"):
        cifar10(pam(), clients=10).open(0)


def test_the_seed_decides_the_partition_unless_the_set_has_its_own():
    def parts(spec, seed):
        return [part.tolist() for part in spec.open(seed).parts]

    assert parts(digits(lda(0.1), clients=20), 1) == parts(digits(lda(0.1), clients=20), 1)
    assert parts(digits(lda(0.1), clients=20), 1) != parts(digits(lda(0.1), clients=20), 2)
    assert parts(digits(lda(0.1), clients=20, seed=5), 1) == parts(
        digits(lda(0.1), clients=20, seed=5), 2
    )
    assert parts(digits(lda(0.1), clients=20, seed=5), 1) == parts(digits(lda(0.1), clients=20), 5)


def test_split_keeps_a_part_of_every_client():
    whole, fed = (digits(lda(0.1), clients=20, split=split).open(3) for split in (None, 0.7))
    assert whole.held_out is None
    assert fed.held_out is not None
    for client in range(20):
        mine, kept = fed.data(client), fed.own_test(client)
        assert kept is not None
        assert sorted(mine.index.tolist() + kept.index.tolist()) == whole.parts[client].tolist()
        assert len(mine) == round(0.7 * len(whole.parts[client]))
    assert len(fed.test) == len(whole.test)


def test_split_leaves_at_least_one_example_on_either_side():
    for split in (0.001, 0.999):
        fed = digits(clients=700, split=split).open(0)
        assert fed.held_out is not None
        assert min(map(len, fed.parts)) == min(map(len, fed.held_out)) == 1
    with pytest.raises(SettingError, match=r"client \d+ must have two examples.*found 1"):
        digits(clients=1442, split=0.5).open(0)


def test_pool_deals_out_all_and_tests_on_what_is_held_out():
    fed = digits(pathological(2), clients=20, split=0.7, pool=True).open(0)
    assert fed.held_out is not None
    held = torch.cat(list(fed.held_out))
    assert len(fed.train) == 1797
    assert sorted(everything(fed) + held.tolist()) == list(range(1797))
    assert torch.equal(fed.test.index, held)
    assert fed.skew().classes_max == 2


def test_reading_again_only_when_the_files_change(files, tmp_path):
    first, second = mnist(clients=6).open(0), mnist(lda(1), clients=5).open(1)
    assert first.train.inputs.data_ptr() == second.train.inputs.data_ptr()
    path = tmp_path / "all" / "mnist" / "train-labels-idx1-ubyte"
    data = bytearray(path.read_bytes())
    data[-1] = 9 - data[-1]
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))
    assert mnist(clients=6).open(0).train.targets[-1] == 9 - first.train.targets[-1]


def test_training_and_test_images_share_one_block_of_memory(files):
    fed = cifar10(clients=10).open(0)
    end = fed.train.inputs.data_ptr() + fed.train.inputs.numel()
    assert fed.test.examples.inputs.data_ptr() == end


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: digits(0.1), "partition must be one of .*lda.*, found 0.1"),
        (lambda: digits(clients=0), "clients must be a whole number of at least 1"),
        (lambda: digits(clients=2.5), "clients"),
        (lambda: digits(split=0), "split must be a number above 0"),
        (lambda: digits(split=1), "split must be below 1"),
        (lambda: digits(split=1.5), "split"),
        (lambda: digits(seed=-1), "seed"),
        (lambda: digits(pool=True), "Add split=0.7"),
        (lambda: cifar10(normalise="fedgloSS"), "Did you mean 'fedgloss'"),
        (lambda: cifar100(labels="fein"), "Did you mean 'fine'"),
    ],
)
def test_wrong_settings_are_refused_at_once(wrong, message):
    with pytest.raises(SettingError, match=message):
        wrong()


def test_more_clients_than_examples_and_missing_files():
    with pytest.raises(SettingError, match="2000 clients need at least 2000 examples, found 1442"):
        digits(clients=2000).open(0)
    for spec in (mnist(), fashion_mnist(), cifar10(), cifar100()):
        with pytest.raises(DataError, match=f"`fedflat data get {spec.name}`"):
            spec.open(0)


@pytest.mark.parametrize(
    "text",
    [
        "digits()",
        "digits(lda(0), clients=50)",
        "digits(clients=50)",
        "mnist(pathological(2), split=0.7, pool=True)",
        "fashion_mnist(quantity_skew(sigma=0.5), seed=3)",
        "cifar10(lda(0.05, concentration='component'), augment=False, normalise='fedgloss')",
        "cifar100(pam(), clients=500, labels='coarse')",
        "cifar10(from_file('partition=(1).json'))",
    ],
)
def test_its_text_is_printed_again(text):
    spec = parse(text, "data set")
    assert repr(spec) == text
    assert parse(repr(spec), "data set") == spec


def test_ways_to_say_the_same():
    assert parse("digits", "data set") == digits() == digits(iid()) == digits(partition=iid())
    assert repr(parse("digits(partition=lda(0))", "data set")) == "digits(lda(0))"
    with pytest.raises(SpellingError, match="Did you mean 'clients'"):
        parse("digits(client=3)", "data set")
    with pytest.raises(SpellingError, match="Did you mean"):
        parse("cifar20()", "data set")
