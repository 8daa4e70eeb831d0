"""FedCG: limits that are other methods, what is refused, and what is sent."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.data.domain_inputs import DomainInputs, DomainNumbers, with_known_domains
from fedflat.data.domains import Domains
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import DataSpec, PartitionedFederation
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.models.domain_branches import BranchedLayer, DomainNetwork
from fedflat.models.domain_graph import branch_rows, distance_graph, graph_slice, student_slices
from fedflat.models.simple import mlp
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler

LOCAL = LocalTraining(batch_size=4, lr=0.05, momentum=0.5, weight_decay=0.01)


def experiment(text: str, **more: Any) -> Experiment:
    rng = torch.Generator().manual_seed(0)
    data = []
    for size in (6, 9, 12, 7):
        y = torch.arange(size) % 3
        data.append((torch.randn(size, 1, 16, 16, generator=rng) + y.view(-1, 1, 1, 1), y))
    settings: dict[str, Any] = {
        "method": parse(text, "method"),
        "on": clients_of(data, test=data[2], classes=3),
        "model": mlp([5]),
        "rounds": 3,
        "seed": 3,
        "local": LOCAL,
        "sampler": ClientSampler(clients=2),
    }
    return Experiment(**settings | more)


def final(exp: Experiment) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """The final parameters by name, and the rows of metrics."""
    setup = prepare(exp)
    result = train(setup, executor=InProcess(threads=1))
    assert result.model is not None
    layout = setup.job.learner.flat.layout
    named = {name: result.model.params[place] for name, place in layout.slices.items()}
    return named, result.rows


MODELS = pytest.mark.parametrize(
    "model", [mlp([5]), parse("fsa_cnn(channels=[4, 4])", "model")], ids=repr
)
AT_ZERO = pytest.mark.parametrize(
    "text",
    [
        "fedcg(domains=1, learn_weight=False)",
        "fedcg(domains=3, learn_weight=False, layers='all', projection='off')",
    ],
)


def agnostic(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of the plain network, by its own names."""
    return {
        name.removeprefix("network.").replace(".layer.", "."): value
        for name, value in named.items()
        if not name.startswith("student.") and "branches" not in name and "projection" not in name
    }


@MODELS
@AT_ZERO
def test_with_lambda_fixed_at_zero_gradients_are_those_of_fedavg_bit_for_bit(
    model: Any, text: str
) -> None:
    plain, branched = (
        prepare(experiment(one, model=model)).job.learner for one in ("fedavg()", text)
    )
    data = prepare(experiment("fedavg()")).fed.data(1)
    batch = data.batch(torch.arange(7), torch.float32)
    domains = torch.arange(7) % branched.flat.module.domains  # type: ignore[operator]
    cross = nn.functional.cross_entropy

    def at_start(learner: Learner, *inputs: Tensor) -> dict[str, Tensor]:
        def loss(module: nn.Module) -> Tensor:
            return cross(module(*inputs), batch.targets)

        gradient = learner.gradient_of(loss, learner.initial().params)
        return {name: gradient[place] for name, place in learner.flat.layout.slices.items()}

    expected = at_start(plain, batch.inputs)
    found = agnostic(at_start(branched, batch.inputs, domains))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@MODELS
@AT_ZERO
@pytest.mark.parametrize("more", ["", " + sam(rho=0.05)"])
def test_with_lambda_fixed_at_zero_it_is_fedavg(model: Any, text: str, more: str) -> None:
    """Vectors are summed in other places of a longer vector, so the last bit may differ."""
    settings = {"model": model, "dtype": "float64", "rounds": 2}
    plain, rows = final(experiment("fedavg()" + more, **settings))
    branched, more_rows = final(experiment(text + more, **settings))
    found = agnostic(branched)
    assert found.keys() == plain.keys()
    for name, value in plain.items():
        assert torch.allclose(found[name], value, rtol=0, atol=1e-14), name
    assert [row["accuracy"] for row in rows] == [row["accuracy"] for row in more_rows]
    assert rows[-1]["train_loss"] == pytest.approx(more_rows[-1]["train_loss"], abs=1e-13)


class Known(DataSpec):
    """Two clients; images have one of two or more known domains."""

    def __init__(self, facets: tuple[str, ...] = ("kind",), missing: bool = False) -> None:
        rng = torch.Generator().manual_seed(1)
        x, y = torch.randn(24, 1, 4, 4, generator=rng), torch.arange(24) % 3
        each = tuple(tuple(str(i // (j + 1) % 2) for j in range(len(facets))) for i in range(24))
        domains = None if missing else Domains(facets, each)
        self.examples = Examples(x, y, 3, domains=domains)

    def open(self, seed: int) -> PartitionedFederation:
        parts = [torch.arange(0, 10), torch.arange(10, 18)]
        return PartitionedFederation(
            self.examples, ClientData(self.examples, torch.arange(18, 24)), parts
        )


def test_with_identities_it_is_one_extra_layer_per_domain_and_nothing_is_shared() -> None:
    """A = I, W = I and no ReLU: the same as without W, and a domain sees its own images only."""
    text = "fedcg(domains=2, labels='oracle', adjacency='eye', relu=False, weight=0.5, {})"
    exp = experiment(text.format("projection='off'"), on=Known())
    learner = prepare(exp).job.learner
    full = prepare(experiment(text.format("projection='full'"), on=Known())).job.learner
    layout, module = learner.flat.layout, learner.flat.module
    assert isinstance(module, DomainNetwork)
    layer = module.network.get_submodule("fc2")
    assert isinstance(layer, BranchedLayer)
    x = learner.sample[0].float()
    hidden = module.network[:-1](x)  # type: ignore[index]
    for domain in (0, 1):
        row = layer.branches[domain]
        own = nn.functional.linear(hidden, row[:15].view(3, 5), row[15:])
        with torch.no_grad():
            expected = layer.layer(hidden) + 0.5 * own
        domains = torch.full((2,), domain)
        assert torch.allclose(learner.flat.forward(x, domains), expected, atol=1e-6)
        assert torch.allclose(full.flat.forward(x, domains), expected, atol=1e-6)

        def loss(module: nn.Module, domains: Tensor = domains) -> Tensor:
            return module(x, domains).square().sum()

        gradient = learner.gradient_of(loss, learner.initial().params)
        rows = branch_rows(layout, gradient, 2)
        assert rows[domain].any()
        assert not rows[1 - domain].any()


def test_a_bottleneck_of_full_width_whose_factors_cancel_is_the_identity() -> None:
    for more in ("projection='bottleneck', rank=999", "projection='bottleneck', residual=True"):
        text = f"fedcg(domains=2, labels='oracle', weight=0.5, {more})"
        thin = prepare(experiment(text, on=Known())).job.learner
        full = prepare(experiment(text.replace("bottleneck", "full"), on=Known())).job.learner
        x, domains = thin.sample
        layout = full.flat.layout
        named = {
            name: place
            for name, place in thin.flat.layout.slices.items()
            if "projection" not in name
        }
        params = full.initial().params
        for name, place in named.items():
            params[layout.slices[name]] = thin.initial().params[place]
        full.flat.load(params)
        close = torch.allclose(
            thin.flat.forward(x, domains), full.flat.forward(x, domains), atol=1e-5
        )
        assert close, more


def test_a_student_that_is_sure_gives_the_same_soft_and_hard() -> None:
    module = prepare(experiment("fedcg(domains=3, weight=0.7)")).job.learner.flat.module
    assert isinstance(module, DomainNetwork)
    with torch.no_grad():
        for parameter in module.student.parameters():
            parameter.mul_(1e3)
        x = torch.randn(5, 1, 16, 16, generator=torch.Generator().manual_seed(2))
        soft = module(x)
        module.soft = False
        assert torch.allclose(module(x), soft)


def test_sam_leaves_the_student_alone() -> None:
    plain, _ = final(experiment("fedcg(domains=2)", rounds=1))
    sam, _ = final(experiment("fedcg(domains=2) + sam(rho=0.5)", rounds=1))
    students = [name for name in plain if name.startswith("student.")]
    assert students
    assert all(torch.equal(plain[name], sam[name]) for name in students)
    assert not torch.equal(plain["network.fc1.weight"], sam["network.fc1.weight"])


def test_the_teacher_follows_the_student_and_is_not_returned() -> None:
    setup = prepare(experiment("fedcg(domains=2, every=2)", rounds=4))
    server = setup.exp.method.server[0]
    first = server.first_teacher(setup.job.learner)["teacher"]  # type: ignore[attr-defined]
    sent: list[Tensor] = []
    students: list[Tensor] = []

    class RecordingRunFolder(RunFolder):
        def checkpoint(self, run: RunState, *, force: bool = False) -> None:
            if not force:
                place = student_slices(setup.job.learner.flat.layout).params
                sent.append(run.server["server"]["fedcg"]["teacher"])
                students.append(run.models["server"].params[place])

    train(setup, run_folder=RecordingRunFolder(), executor=InProcess(threads=1))
    assert torch.equal(sent[0], first)
    assert not torch.equal(students[0], first)
    assert torch.equal(sent[1], students[1])
    assert torch.equal(sent[2], students[1])
    assert torch.equal(sent[3], students[3])


def test_wima_and_adam_leave_a_graph_of_the_new_branches() -> None:
    setup = prepare(experiment("fedcg(domains=3) + fedadam(lr=0.05) + wima(window=2)"))
    result = train(setup, executor=InProcess(threads=1))
    assert result.model is not None
    layout = setup.job.learner.flat.layout
    expected = distance_graph(branch_rows(layout, result.model.params, 3), 0.5)
    assert torch.equal(result.model.buffers[graph_slice(layout)].view(3, 3), expected)


def test_coinciding_and_single_domains_have_a_defined_graph() -> None:
    same = distance_graph(torch.ones(3, 5), 0.5)
    assert torch.allclose(same, 0.25 + 0.25 * torch.eye(3))
    pair = torch.tensor([[1.0, 2.0], [1.0, 2.0], [4.0, 6.0]])
    graph = distance_graph(pair, 0.5)
    assert torch.isfinite(graph).all()
    assert torch.allclose(graph.sum(1), torch.ones(3))
    assert graph[0, 1] == pytest.approx(0.5)
    assert torch.equal(distance_graph(torch.ones(1, 5), 0.5), torch.ones(1, 1))
    two = distance_graph(torch.randn(2, 4, generator=torch.Generator().manual_seed(0)), 0.5)
    assert torch.allclose(two, torch.full((2, 2), 0.5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fedcg(domains=0)", "domains"),
        ("fedcg(layers='conv9')", "no linear layer or convolution 'conv9'.*fc1, fc2|conv9"),
        ("fedcg(layers=[])", "layers must be"),
        ("fedcg(labels='guess')", "labels"),
        ("fedcg(domains=3, adjacency='hamming')", "power of two"),
        ("fedcg(domains=4, adjacency='hamming')", "attributes of known domains"),
        ("fedcg(domains=4, labels='kmeans', adjacency='hamming')", "attributes of known domains"),
        ("fedcg(adjacency='uniform', start='rand')", "would change nothing"),
        ("fedcg(classifier=3)", "classifier must be a model"),
        ("fedcg() + mixup()", "labels whole images"),
        ("fedcg() + cutout(side=3)", "labels whole images"),
        ("fedcg(labels='oracle', domains=2)", "do not say of which domain"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        prepare(experiment(text))


def test_a_wrong_number_of_known_domains_and_data_without_any() -> None:
    with pytest.raises(SettingError, match=r"2 known domains: kind \(2\).*Set domains=2"):
        prepare(experiment("fedcg(domains=3, labels='oracle')", on=Known()))
    with pytest.raises(SettingError, match="do not say of which domain"):
        prepare(experiment("fedcg(domains=2, labels='oracle')", on=Known(missing=True)))


def test_domains_of_two_facets_are_numbered_by_their_values() -> None:
    domains = Domains(("a", "b"), (("1", "0"), ("0", "1"), ("1", "1"), ("0", "0")))
    numbers = DomainNumbers([domains])
    assert len(numbers) == 4
    assert numbers.of(domains).tolist() == [2, 1, 3, 0]
    fed = with_known_domains(Known(("a", "b")).open(0), 4)
    assert isinstance(fed.test.examples, DomainInputs)
    images, found = fed.test.batch(torch.arange(3), torch.float32).inputs
    assert images.shape == (3, 1, 4, 4)
    assert fed.test.domains is not None
    assert found.tolist() == numbers.of(fed.test.domains)[:3].tolist()


class Odd(nn.Module):
    """Its output is not that of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(256, 4)
        self.out = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.out(self.body(x.flatten(1)).relu()).log_softmax(1)
        return scores


def test_a_model_whose_last_layer_is_not_known_lists_its_layers() -> None:
    text = "fedcg(domains=2, classifier=logistic(){})"
    with pytest.raises(SettingError, match=r"last layer is not known.*body.*out"):
        prepare(experiment(text.format(""), model=Odd))
    train(experiment(text.format(", layers=['out']"), model=Odd, rounds=1))
    with pytest.raises(SettingError, match=r"cannot classify inputs of shape .*mlp"):
        prepare(experiment("fedcg(domains=2, classifier=small_unet())"))
    with pytest.raises(SettingError, match="needs a second network with 2 outputs"):
        prepare(experiment("fedcg(domains=2, layers='all')", model=Odd))
    with pytest.raises(SettingError, match=r"'stage1\.0\.conv9'") as refused:
        prepare(
            experiment(
                "fedcg(domains=2, layers='stage1.0.conv9')", model=parse("resnet20()", "model")
            )
        )
    assert "Did you mean 'stage1.0.conv" in str(refused.value)
    assert str(refused.value).endswith("stage3.2.conv2, fc.")


@pytest.mark.parametrize(
    ("model", "shape", "last"),
    [
        ("cnn()", (3, 32, 32), "fc3"),
        ("resnet20()", (3, 32, 32), "fc"),
        ("resnet18()", (3, 32, 32), "fc"),
        ("femnist_cnn()", (1, 28, 28), "fc2"),
        ("mobilenetv2()", (3, 32, 32), None),
    ],
)
def test_the_last_layer_of_our_networks_is_found(
    model: str, shape: tuple[int, ...], last: str | None
) -> None:
    pieces = parse("fedcg(domains=2, labels='oracle', projection='off')", "method").client
    learner = Learner(parse(model, "model"), shape, 10, seed=0, pieces=pieces)
    module = learner.module()
    assert isinstance(module, DomainNetwork)
    assert last is None or module.names == (last,)
    assert module.network.get_submodule(module.names[0]).get_submodule("layer") is not None


def test_full_gradients_are_those_of_labelled_images() -> None:
    named, rows = final(experiment("fedcg(domains=2, weight=0.5) + mime(b=0.5)", rounds=2))
    assert all(torch.isfinite(value).all() for value in named.values())
    assert rows[-1]["train_loss"] < rows[0]["train_loss"] + 1


def test_stacks_are_refused_plainly() -> None:
    setup = prepare(experiment("fedcg(domains=2)"))
    assert Stacked().refusal(setup.job) == "fedcg(domains=2) works on one client at a time"
