"""Models that give no row of class scores for an image: masks, descriptors, letters. And what each
of them must do."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedflat import char_lstm, embedder, small_unet, word_lstm
from fedflat.core.flat import FlatModule, Layout
from fedflat.errors import SettingError
from fedflat.kernels.lstm import stepwise
from fedflat.kernels.memory_format import gains, refusal
from fedflat.models.embedder import EmbedderNet, GeM
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import parse

# Each model, an input it reads, what it makes of three inputs and 6 outputs, its ReLUs, and its
# last layer's numbers.
ROWS: list[tuple[ModelSpec, tuple[int, ...], tuple[int, ...], int, int]] = [
    (small_unet(), (3, 16, 24), (3, 6, 16, 24), 7, 16 * 6 + 6),
    (small_unet(width=4, groups=2), (1, 9, 13), (3, 6, 9, 13), 7, 4 * 6 + 6),
    (embedder(), (3, 16, 24), (3, 6), 4, 64 * 9 * 6 + 6),
    (embedder(width=4, groups=1, l2="before_pool"), (1, 8, 8), (3, 6), 4, 16 * 9 * 6 + 6),
    (char_lstm(embedding=3, hidden=5), (7,), (3, 7, 6), 0, 5 * 6 + 6),
    (char_lstm(hidden=4, layers=1, every=False), (7,), (3, 6), 0, 4 * 6 + 6),
    (word_lstm(embedding=3, hidden=5), (7,), (3, 7, 6), 0, 3 * 6 + 6),
]
IDS = [repr(row[0]) for row in ROWS]
every_row = pytest.mark.parametrize(("spec", "shape", "made", "relus", "last"), ROWS, ids=IDS)
IMAGES = [small_unet(), embedder()]


def inputs(spec: ModelSpec, shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    if "lstm" in repr(spec):
        return torch.randint(6, (3, *shape), generator=rng)
    return torch.randn(3, *shape, generator=rng).to(dtype)


@every_row
def test_text_seed_and_shape(
    spec: ModelSpec, shape: tuple[int, ...], made: tuple[int, ...], relus: int, last: int
) -> None:
    assert parse(repr(spec), "model") == spec == pickle.loads(pickle.dumps(spec))
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        states.append(torch.cat([p.detach().flatten() for p in spec.build(shape, 6).parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
    module = spec.build(shape, 6)
    assert sum(isinstance(part, nn.ReLU) for part in module.modules()) == relus
    assert not any(getattr(part, "inplace", False) for part in module.modules())
    assert int(Layout.of(module).classifier().sum()) == last


@every_row
def test_outputs_gradients_and_precision(
    spec: ModelSpec, shape: tuple[int, ...], made: tuple[int, ...], relus: int, last: int
) -> None:
    module = spec.build(shape, 6)
    single = module.eval()(inputs(spec, shape, torch.float32)).detach()
    out = module.double()(inputs(spec, shape))
    assert tuple(out.shape) == made
    torch.testing.assert_close(single.double(), out.detach(), rtol=1e-3, atol=1e-4)
    (out * torch.randn(out.shape, dtype=torch.float64)).sum().backward()
    for name, p in module.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.any(), name


@every_row
def test_each_input_is_read_alone(
    spec: ModelSpec, shape: tuple[int, ...], made: tuple[int, ...], relus: int, last: int
) -> None:
    module, x = spec.build(shape, 6).double().eval(), inputs(spec, shape)
    with torch.no_grad():
        torch.testing.assert_close(module(x)[1:2], module(x[1:2]), rtol=1e-10, atol=1e-10)


@every_row
def test_curvature_can_be_had(
    spec: ModelSpec, shape: tuple[int, ...], made: tuple[int, ...], relus: int, last: int
) -> None:
    """The gradient's gradient along a direction against a difference of gradients."""
    module, x = spec.build(shape, 6).double(), inputs(spec, shape)
    params = dict(module.named_parameters())
    along = {name: torch.randn_like(p) / p.numel() ** 0.5 for name, p in params.items()}
    weights = torch.randn(made, dtype=torch.float64)

    def slope(step: float) -> dict[str, Tensor]:
        moved = {name: p.detach() + step * along[name] for name, p in params.items()}
        return grad(lambda p: (functional_call(module, p, (x,)) * weights).square().mean())(moved)

    loss = (module(x) * weights).square().mean()
    first = torch.autograd.grad(loss, list(params.values()), create_graph=True)
    total = sum((g * along[name]).sum() for g, name in zip(first, params, strict=True))
    product = torch.autograd.grad(total, list(params.values()), allow_unused=True)
    ahead, back = slope(1e-6), slope(-1e-6)
    measured = torch.cat([((ahead[name] - back[name]) / 2e-6).flatten() for name in params])
    pairs = zip(params.values(), product, strict=True)
    exact = torch.cat([(torch.zeros_like(p) if h is None else h).flatten() for p, h in pairs])
    assert float((measured - exact).norm() / exact.norm()) < 1e-2


@every_row
def test_a_stack_of_clients_gives_what_each_gives(
    spec: ModelSpec, shape: tuple[int, ...], made: tuple[int, ...], relus: int, last: int
) -> None:
    """As rows of one tensor; an LSTM is computed step by step."""
    module, x = stepwise(spec.build(shape, 6).double()), inputs(spec, shape)
    named = {
        name: torch.stack([p.detach(), p.detach() * 0.9]) for name, p in module.named_parameters()
    }

    stacked = vmap(lambda p, x: functional_call(module, p, (x,)))
    both = stacked(named, torch.stack([x, x.flip(0)]))
    for place, mine in enumerate((x, x.flip(0))):
        alone = functional_call(
            module, {name: rows[place] for name, rows in named.items()}, (mine,)
        )
        torch.testing.assert_close(both[place], alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("spec", IMAGES, ids=repr)
def test_images_may_lie_with_channels_last(spec: ModelSpec) -> None:
    module = spec.build((3, 16, 24), 8)
    assert gains(module)
    assert refusal(module, inputs(spec, (3, 16, 24), torch.float32)) is None


@pytest.mark.parametrize("spec", IMAGES, ids=repr)
def test_what_is_no_image_is_refused(spec: ModelSpec) -> None:
    with pytest.raises(SettingError, match=r"inputs must be images .* found \(784,\)"):
        spec.build((784,), 10)
    with pytest.raises(SettingError, match="at least 8x8 pixels, found 7x"):
        spec.build((3, 7, 32), 10)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("small_unet(width=6)", "groups must divide 6 channels, found 4"),
        ("small_unet(width=0)", "width must be a whole number of at least 1"),
        ("embedder(l2='never')", "l2 must be 'after_pool' or 'before_pool', found 'never'"),
        ("char_lstm(hidden=0)", "hidden must be a whole number of at least 1"),
        ("char_lstm(every=1)", "every must be True or False"),
    ],
)
def test_wrong_settings_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        parse(text, "model")


def test_requests_come_in_rows() -> None:
    with pytest.raises(SettingError, match=r"rows of letters.* found \(3, 8, 8\)"):
        char_lstm().build((3, 8, 8), 10)


def test_a_letter_is_guessed_from_those_before_it_only() -> None:
    module = char_lstm(embedding=3, hidden=5).build((9,), 6).double()
    one = torch.randint(6, (1, 9))
    two = one.clone()
    two[0, 6:] = (two[0, 6:] + 1) % 6
    a, b = module(one), module(two)
    assert torch.equal(a[:, :6], b[:, :6])
    assert not torch.equal(a[:, 6:], b[:, 6:])


def test_parameters_of_the_papers_character_network() -> None:
    """80 letters, embedding 8, two layers of 100: four gates with two biases each, and 100 x 80 +
    80 at the end."""
    gates = [4 * 100 * (before + 100) + 2 * 4 * 100 for before in (8, 100)]
    module = char_lstm().build((80,), 80)
    assert sum(p.numel() for p in module.parameters()) == 80 * 8 + sum(gates) + 100 * 80 + 80


def test_parameters_of_the_u() -> None:
    w, steps = 16, [(3, 16), (16, 32), (32, 64), (64, 64), (96, 32), (48, 16), (19, 16)]
    expected = sum(9 * before * after + 2 * after for before, after in steps) + w * 9 + 9
    assert sum(p.numel() for p in small_unet().build((3, 64, 128), 9).parameters()) == expected


def test_an_output_pixel_depends_on_its_whole_neighbourhood() -> None:
    """Of three strides of 2 and nearest enlargement: one pixel moves outputs more than 16 pixels
    away, and its own."""
    module = small_unet(width=4).build((1, 64, 64), 2).double().eval()
    for part in module.modules():
        if isinstance(part, nn.GroupNorm):  # which hears of everything: taken out
            part.forward = lambda x: x  # type: ignore[method-assign, assignment]
    x = torch.randn(1, 1, 64, 64, dtype=torch.float64)
    other = x.clone()
    other[0, 0, 32, 32] += 1
    moved = (module(x) != module(other)).any(1)[0].nonzero()
    assert [32, 32] in moved.tolist()
    assert int((moved - 32).abs().max()) > 16


def test_pooling_is_the_published_mean() -> None:
    """(mean of x^3)^(1/3), by hand; and both orders of pooling and normalising."""
    pool = GeM().double()
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64).T.reshape(
        1, 2, 1, 2
    )  # positions (1, 3), (2, 4)
    rows = x[0, :, 0].tolist()
    means = [(sum(v**3 for v in row) / 2) ** (1 / 3) for row in rows]
    torch.testing.assert_close(pool(x)[0], torch.tensor(means, dtype=torch.float64))
    for low, high in pairwise((1.0, 3.0, 9.0)):
        pool.p.data.fill_(low)
        less = pool(x)
        pool.p.data.fill_(high)
        assert (pool(x) > less).all()


@pytest.mark.parametrize("order", ["after_pool", "before_pool"])
def test_what_is_made_of_length_one(order: str) -> None:
    net = EmbedderNet(1, 2, 4, 1, order).double()
    x = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], dtype=torch.float64).reshape(
        1, 2, 1, 2
    )  # channel rows (1, 2), (3, 4)
    net.trunk, net.describe = nn.Sequential(), nn.Identity()  # type: ignore[assignment]
    columns = [[1.0, 3.0], [2.0, 4.0]]
    if order == "before_pool":
        columns = [[v / sum(u * u for u in column) ** 0.5 for v in column] for column in columns]
    pooled = [(sum(column[c] ** 3 for column in columns) / 2) ** (1 / 3) for c in range(2)]
    length = 1.0 if order == "before_pool" else sum(v * v for v in pooled) ** 0.5
    torch.testing.assert_close(
        net(x)[0], torch.tensor([v / length for v in pooled], dtype=torch.float64)
    )


@every_row
def test_a_model_can_be_flattened(
    spec: ModelSpec, shape: tuple[int, ...], made: tuple[int, ...], relus: int, last: int
) -> None:
    flat = FlatModule(spec.build(shape, 6))
    assert tuple(flat.module(inputs(spec, shape, torch.float32)).shape) == made
