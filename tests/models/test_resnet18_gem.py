"""FedVPR's network, its descriptor, and layers that are not trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

import fedflat as ff
from fedflat.client.learner import Learner
from fedflat.core.weight_files import state_dict_in
from fedflat.data.examples import Batch
from fedflat.errors import RunError, SettingError
from fedflat.files import Damaged
from fedflat.models.embedder import GeM
from fedflat.registry.specs import parse
from fedflat.tasks.retrieval import Retrieval


def block(prefix: str, *, halves: bool) -> list[str]:
    convs = [f"{prefix}.{name}.weight" for name in ("conv1", "conv2")]
    convs += [f"{prefix}.downsample.0.weight"] if halves else []
    norms = ["bn1", "bn2", *(["downsample.1"] if halves else [])]
    return convs + [name for norm in norms for name in of_norm(f"{prefix}.{norm}")]


def of_norm(name: str) -> list[str]:
    ends = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    return [f"{name}.{end}" for end in ends]


def torchvision_names(stages: int) -> set[str]:
    """The names of torchvision's ResNet-18, written out from its layout."""
    names = ["conv1.weight", *of_norm("bn1")]
    for stage in range(1, stages + 1):
        names += block(f"layer{stage}.0", halves=stage > 1)
        names += block(f"layer{stage}.1", halves=False)
    return set(names)


def test_names_and_sizes_are_those_of_torchvision() -> None:
    net = ff.resnet18_gem().build((3, 64, 64), 64)
    state = net.state_dict()
    assert set(state) == torchvision_names(3) | {"pool.p"}
    assert len(torchvision_names(3)) == 90
    assert sum(p.numel() for p in net.parameters()) == 2_782_784 + 1
    assert len(list(net.parameters())) == 45 + 1
    before = [p.numel() for name, p in net.named_parameters() if not name.startswith("layer3")]
    assert sum(before) == 683_072 + 1
    assert sum(isinstance(part, nn.BatchNorm2d) for part in net.modules()) == 15
    four = ff.resnet18_gem(cut=4).build((3, 64, 64), 64)
    assert set(four.state_dict()) == torchvision_names(4) | {"pool.p"}
    # ResNet-18 has 11,689,512 parameters with its classifier of 512 x 1000 + 1000.
    assert sum(p.numel() for p in four.parameters()) == 11_689_512 - 513_000 + 1


def test_sizes_of_the_maps_inside() -> None:
    net = ff.resnet18_gem().build((3, 480, 640), 64).eval()
    sizes: dict[str, tuple[int, ...]] = {}

    def note(name: str, made: Tensor) -> None:
        sizes[name] = tuple(made.shape[1:])

    for name in ("conv1", "maxpool", "layer1", "layer2", "layer3"):
        part = net.get_submodule(name)
        part.register_forward_hook(lambda module, x, y, name=name: note(name, y))
    with torch.no_grad():
        out = net(torch.zeros(1, 3, 480, 640))
        assert sizes == {
            "conv1": (64, 240, 320),
            "maxpool": (64, 120, 160),
            "layer1": (64, 120, 160),
            "layer2": (128, 60, 80),
            "layer3": (256, 30, 40),
        }
        assert out.shape == (1, 256)
        net(torch.zeros(1, 3, 224, 224))
        assert sizes["layer3"] == (256, 14, 14)


def double(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_gem_and_its_slopes() -> None:
    gem = GeM().double()
    x = double([1, 2, 3, 4]).view(1, 1, 2, 2).requires_grad_()
    out = gem(x)
    out.sum().backward()
    assert out.item() == pytest.approx(2.92401774, abs=1e-8)
    assert gem.p.grad is not None
    assert x.grad is not None
    assert float(gem.p.grad) == pytest.approx(0.16213374, abs=1e-8)
    slopes = (0.02924018, 0.11696071, 0.26316160, 0.46784284)
    assert x.grad.flatten().tolist() == pytest.approx(slopes, abs=1e-8)


def test_what_is_brought_to_length_one() -> None:
    x = double([[1, 2], [3, 4]]).view(1, 2, 1, 2)
    gem = GeM().double()
    pooled = gem(x)
    assert pooled[0].tolist() == pytest.approx((1.65096362, 3.57001849), abs=1e-8)
    after = normalize(pooled, dim=-1)
    assert after[0].tolist() == pytest.approx((0.41974192, 0.90764350), abs=1e-8)
    before = gem(normalize(x, dim=-3))
    assert before[0].tolist() == pytest.approx((0.39264204, 0.92235313), abs=1e-8)


@pytest.mark.parametrize("l2", ["after_pool", "before_pool"])
def test_the_networks_descriptor_is_that(l2: str) -> None:
    net = ff.resnet18_gem(cut=1, l2=l2).build((3, 32, 32), 64).eval()
    seen: list[Tensor] = []
    net.get_submodule("layer1").register_forward_hook(lambda module, x, y: seen.append(y))
    with torch.no_grad():
        out = net(torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)))
        pool = net.get_submodule("pool")
        expected = normalize(pool(seen[0]), dim=-1)
        if l2 == "before_pool":
            expected = pool(normalize(seen[0], dim=-3))
    torch.testing.assert_close(out, expected)


def test_the_triplet_loss_and_its_gradients() -> None:
    points = double([[1, 0], [0.8, 0.6], [0.96, 0.28], [0, 1]]).requires_grad_()
    task, nothing = Retrieval(), torch.zeros(4)
    near, count = task.loss(points, Batch(points, (nothing, torch.tensor([[0, 1, 2]]))))
    near.backward()
    # torch's loss adds 1e-6 inside the norms
    assert near.item() / int(count) == pytest.approx(0.44961282, abs=5e-6)
    assert points.grad is not None
    expected = [(0.17480641, 0.04126620), (-0.31622777, 0.94868330), (0.14142136, -0.98994949)]
    for row, gradient in zip(points.grad[:3].tolist(), expected, strict=True):
        assert row == pytest.approx(gradient, abs=5e-6)
    points.grad = None
    far, _ = task.loss(points, Batch(points, (nothing, torch.tensor([[0, 1, 3]]))))
    far.backward()
    assert far.item() == 0
    assert not points.grad.any()  # type: ignore[attr-defined]


class OneLayer(nn.Module):
    """Features ``W x`` of three positions, GeM, length one."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(double([[1, 0.5], [0.25, 1]]))
        self.pool = GeM().double()

    def forward(self, x: Tensor) -> Tensor:
        return normalize(self.pool((self.W @ x).unsqueeze(2)), dim=-1)


def test_a_whole_step_by_hand() -> None:
    net = OneLayer()
    images = double(
        [
            [[1, 2, 0], [0, 1, 1]],
            [[2, 1, 1], [1, 0, 2]],
            [[2, 0, 1], [0, 2, 1]],
            [[0, 3, 1], [1, 1, 0]],
        ]
    )
    out = net(images)
    assert out[0].tolist() == pytest.approx((0.84227673, 0.53904536), abs=1e-8)
    triples = torch.tensor([[0, 1, 2], [0, 1, 3]])
    loss, _ = Retrieval(negatives=2).mean(out, Batch(images, (torch.zeros(4), triples)))
    loss.backward()
    assert loss.item() == pytest.approx(0.09768620, abs=5e-6)
    assert net.pool.p.grad is not None
    assert net.W.grad is not None
    assert float(net.pool.p.grad) == pytest.approx(0.01242334, abs=5e-6)
    slopes = (0.04553823, -0.08161202, 0.09624412, -0.02879325)
    assert net.W.grad.flatten().tolist() == pytest.approx(slopes, abs=5e-6)


def published(folder: Path) -> Path:
    """A file as torchvision publishes it: all four stages and a classifier."""
    torch.manual_seed(5)
    state = ff.resnet18_gem(cut=4).build((3, 32, 32), 64).state_dict()
    del state["pool.p"]
    state |= {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    torch.save(state, folder / "resnet18.pth")
    return folder / "resnet18.pth"


PLACES = "street(targets='place', towns=1, clients=2, examples=12, width=32, height=32, tests=4, unseen_towns=0)"


def test_published_weights_load_and_frozen_layers_keep_them(tmp_path: Path) -> None:
    path = published(tmp_path)
    layers = "conv1,bn1,layer1,layer2"
    result = ff.run(
        "fedasam(rho=0.5) + local_adam() + server_momentum(beta=0.5)",
        on=PLACES,
        task="retrieval()",
        model=f"frozen(resnet18_gem(), '{layers}')",
        init=f"from_weights({str(path)!r}, keep='matching')",
        rounds=2,
        clients_per_round=2,
        batch_size=3,
        lr=1e-3,
        weight_decay=0.1,
        quiet=True,
    )
    learner = Learner(
        parse(f"frozen(resnet18_gem(), '{layers}')", "model"), (3, 32, 32), 64, seed=0
    )
    trained, start = learner.flat.state_dict_of(result.model), torch.load(path)
    parameters = {name for name, _ in learner.flat.module.named_parameters()}
    for name in parameters - {"pool.p"}:
        kept = name.startswith(tuple(f"{layer}." for layer in layers.split(",")))
        assert torch.equal(trained[name], start[name]) == kept, name
    assert float(trained["pool.p"]) != 3
    assert not torch.equal(trained["bn1.running_mean"], start["bn1.running_mean"])


def test_a_frozen_layer_that_does_not_exist() -> None:
    with pytest.raises(SettingError, match=r"has no layer 'layer9'.*conv1, bn1, layer1"):
        parse("frozen(resnet18_gem(), 'conv1, layer9')", "model").build((3, 32, 32), 5)
    with pytest.raises(SettingError, match="layers must be names of layers"):
        parse("frozen(cnn(), ' ,')", "model")
    with pytest.raises(SettingError, match="all layers of the model are frozen"):
        Learner(parse("frozen(mlp([3]), 'fc1,fc2')", "model"), (4,), 2, seed=0).flat  # noqa: B018


@pytest.mark.parametrize("executor", ["in-process", "stacked"])
def test_frozen_layers_in_stacks(executor: str) -> None:
    result = ff.run(
        "fedsam(rho=0.1)",
        on="digits(clients=20)",
        model="frozen(mlp([6]), 'fc1')",
        rounds=2,
        clients_per_round=5,
        weight_decay=0.1,
        executor=executor,
        quiet=True,
    )
    learner = Learner(parse("mlp([6])", "model"), (1, 8, 8), 10, seed=0)
    moved = result.model.params != learner.initial().params
    mask = learner.flat.layout.where(lambda name, shape: name.startswith("fc1"))
    assert not moved[mask].any()
    assert moved[~mask].float().mean() > 0.9


def test_a_file_that_holds_no_weights(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(Damaged, match="no tensors by name"):
        state_dict_in((tmp_path / "list.pth").read_bytes())
    (tmp_path / "broken.pth").write_bytes(b"PK\x03\x04nothing")
    init = f"from_weights({str(tmp_path / 'broken.pth')!r})"
    with pytest.raises(RunError, match="neither a safetensors file nor a state dict"):
        ff.run("fedavg", on="digits(clients=20)", init=init, rounds=1)
