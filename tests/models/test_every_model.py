"""One table of all named models, and what each of them must do."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import nn

import fedflat
from fedflat import (
    cnn,
    femnist_cnn,
    frozen,
    fsa_cnn,
    logistic,
    mcmahan_cnn,
    mlp,
    mobilenetv2,
    resnet18,
    resnet20,
    stochastic,
    tiny_convnet,
)
from fedflat.core.flat import Layout
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import RegisteredName, parse, registered
from models.test_models_of_tasks import ROWS as OF_TASKS

# Each model, an input it reads (small where the model allows), and its hidden non-linearities.
ROWS: list[tuple[ModelSpec, tuple[int, ...], int]] = [
    (logistic(), (5,), 0),
    (logistic(), (1, 8, 8), 0),
    (mlp(), (7,), 1),
    (mlp(hidden=[12, 9]), (1, 8, 8), 2),
    (cnn(), (3, 32, 32), 4),
    (cnn(pool_first=False), (1, 28, 28), 4),
    (cnn(), (3, 16, 20), 4),
    (fsa_cnn(), (3, 32, 32), 4),
    (fsa_cnn(), (1, 28, 28), 4),
    (fsa_cnn(channels=[3, 5], hidden=[7, 9]), (3, 32, 32), 4),
    (mcmahan_cnn(), (1, 28, 28), 3),
    (mcmahan_cnn(hidden=9), (3, 5, 16), 3),
    (femnist_cnn(), (1, 28, 28), 3),
    (femnist_cnn(), (3, 9, 16), 3),
    (tiny_convnet(), (3, 64, 64), 5),
    (tiny_convnet(groups=8), (1, 9, 16), 5),
    (resnet20(), (3, 32, 32), 1 + 2 * 9),
    (resnet20(norm="batch"), (1, 28, 28), 1 + 2 * 9),
    (resnet18(groups=4), (3, 16, 16), 1 + 2 * 8),
    (resnet18(norm="batch"), (1, 8, 8), 1 + 2 * 8),
    (mobilenetv2(width=0.5), (3, 32, 32), 1 + 1 + 2 * 16 + 1),
    (mobilenetv2(norm="group", width=0.25, dropout=0), (1, 32, 33), 1 + 1 + 2 * 16 + 1),
    (frozen(mlp([9]), "fc1"), (7,), 1),
    (stochastic(mlp([9]), dim=4, train_samples=3, test_samples=5), (7,), 1),
    (stochastic(dim=8), (1, 16, 16), 4),
]
IDS = [f"{spec!r}-{'x'.join(map(str, shape))}" for spec, shape, _ in ROWS]
IMAGE_MODELS = [
    cnn(),
    fsa_cnn(),
    tiny_convnet(),
    resnet20(),
    resnet18(),
    mobilenetv2(),
    femnist_cnn(),
    mcmahan_cnn(),
]
SMALLEST = list(zip(IMAGE_MODELS, [16, 16, 8, 4, 8, 32, 6, 4], strict=True))
OF_PIXELS = {"bisenetv2", "deeplabv3"}
"""Models with scores at every pixel have a table of their own, in test_models_of_pixels.py."""
OF_PLACES = {"resnet18_gem"}
"""Its descriptors have a fixed width; its tests are in test_resnet18_gem.py."""
OF_BATCHES = {"leaf_celeba"}
"""Its outputs depend on the whole batch; its tests are in tests/data/test_celeba.py."""
every_row = pytest.mark.parametrize(("spec", "shape", "activations"), ROWS, ids=IDS)


def seeded(spec: ModelSpec, shape: tuple[int, ...], seed: int = 0) -> nn.Module:
    """The model for 6 classes, drawn from ``seed``; torch's own random state is left as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return spec.build(shape, 6)


def batch(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(3, *shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def test_the_table_holds_every_registered_model() -> None:
    output = {repr(spec).partition("(")[0] for spec, _, _ in ROWS}
    of_tasks = {repr(row[0]).partition("(")[0] for row in OF_TASKS}
    tested = output | OF_PIXELS | OF_PLACES | OF_BATCHES | of_tasks
    assert tested == {entry.name for entry in registered("model")}


@pytest.mark.parametrize("entry", list(registered("model")), ids=lambda entry: entry.name)
def test_the_public_name_is_the_registered_one(entry: RegisteredName) -> None:
    assert getattr(fedflat, entry.name) is entry.make
    assert entry.summary.endswith(".")


@every_row
def test_spelling_and_pickle(spec: ModelSpec, shape: tuple[int, ...], activations: int) -> None:
    again = parse(repr(spec), "model")
    assert again == spec
    assert repr(again) == repr(spec)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(again) == hash(spec)


@every_row
def test_equal_seeds_give_equal_parameters(
    spec: ModelSpec, shape: tuple[int, ...], activations: int
) -> None:
    one, two, other = (seeded(spec, shape, seed).state_dict() for seed in (0, 0, 1))
    assert list(one) == list(two)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@every_row
def test_float64_output_and_gradient(
    spec: ModelSpec, shape: tuple[int, ...], activations: int
) -> None:
    module = seeded(spec, shape).double()
    out = module(batch(shape, torch.float64))
    assert out.shape == (3, 6)
    assert out.dtype == torch.float64
    nn.functional.cross_entropy(out, torch.tensor([0, 1, 2])).backward()
    for name, p in module.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.any(), name


@every_row
def test_float32_agrees_with_float64(
    spec: ModelSpec, shape: tuple[int, ...], activations: int
) -> None:
    module = seeded(spec, shape).eval()
    with torch.no_grad():
        single = module(batch(shape))
        double = module.double()(batch(shape, torch.float64))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


@every_row
def test_every_activation_is_a_module_used_once(
    spec: ModelSpec, shape: tuple[int, ...], activations: int
) -> None:
    module = seeded(spec, shape)
    calls: list[nn.Module] = []
    for part in module.modules():
        if isinstance(part, nn.ReLU | nn.ReLU6):
            assert not part.inplace  # a hook must see what the next layer reads, unchanged
            part.register_forward_hook(lambda part, args, out: calls.append(part))
    module(batch(shape))
    assert len(calls) == len(set(calls)) == activations


@every_row
def test_layout_finds_classifier_norms_and_shortcuts(
    spec: ModelSpec, shape: tuple[int, ...], activations: int
) -> None:
    module = seeded(spec, shape)
    linear = [part for part in module.modules() if isinstance(part, nn.Linear)][-1]
    assert linear.out_features == 6
    assert int(Layout.of(module).classifier().sum()) == linear.weight.numel() + 6
    for name, part in module.named_modules():
        kernel_of_one = isinstance(part, nn.Conv2d) and part.kernel_size == (1, 1)
        assert ("shortcut" in name) >= (kernel_of_one and "resnet" in repr(spec))
        assert ("norm" in name.rpartition(".")[2]) == isinstance(
            part, nn.GroupNorm | nn.BatchNorm2d
        )


@every_row
def test_evaluation_reads_each_input_alone(
    spec: ModelSpec, shape: tuple[int, ...], activations: int
) -> None:
    module = seeded(spec, shape).double().eval()
    x = batch(shape, torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(module(x)[1:2], module(x[1:2]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("spec", IMAGE_MODELS, ids=repr)
def test_image_models_refuse_what_is_no_image(spec: ModelSpec) -> None:
    name = repr(spec).partition("(")[0]
    with pytest.raises(SettingError, match=rf"^{name}: inputs must be images .* found \(784,\)"):
        spec.build((784,), 10)
    with pytest.raises(
        SettingError, match=rf"^{name}: inputs must be images .* found \(2, 3, 32, 32\)"
    ):
        spec.build((2, 3, 32, 32), 10)


@pytest.mark.parametrize(("spec", "smallest"), SMALLEST, ids=repr)
def test_image_models_refuse_small_images_and_no_others(spec: ModelSpec, smallest: int) -> None:
    assert seeded(spec, (1, smallest, smallest))(batch((1, smallest, smallest))).shape == (3, 6)
    for shape in (1, smallest - 1, 32), (1, 32, smallest - 1):
        with pytest.raises(
            SettingError, match=f"at least {smallest}x{smallest} pixels, found {shape[1]}x"
        ):
            spec.build(shape, 10)


@pytest.mark.parametrize("make", [logistic, mlp, *map(type, IMAGE_MODELS)])
def test_impossible_inputs_are_refused(make: type[ModelSpec]) -> None:
    with pytest.raises(SettingError, match="classes must be a whole number of at least 1, found 0"):
        make().build((3, 32, 32), 0)
    with pytest.raises(SettingError, match=r"length of the input's shape .* found 0"):
        make().build((0, 32, 32), 10)
