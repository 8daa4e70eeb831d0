"""FedCG on a problem of five images, against numbers that were worked out apart from the code.

Network: linear 2 -> 2, tanh, linear 2 -> 2 with branches of three domains. The classifiers are
linear. Two clients of three and two images, rate 0.5, two rounds, the teacher replaced in each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.client.training import ClientJob, Request, open_context, run_client
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.data.examples import ClientData, Examples
from fedflat.methods.fedcg import Branches
from fedflat.models.domain_branches import BranchedLayer, BranchSettings, DomainNetwork
from fedflat.models.domain_graph import distance_graph, graph_slice, hamming_graph
from fedflat.registry.specs import parse
from fedflat.server.piece import ServerState
from fedflat.server.step import aggregate, server_step

V = [
    [0.4, -0.2, 0.1, 0.3, 0.2, -0.1],
    [-0.3, 0.5, 0.2, -0.4, -0.1, 0.3],
    [0.1, 0.1, -0.5, 0.2, 0.3, 0.2],
]
START = {
    "student.fc.weight": [[0.2, 0.4], [-0.1, -0.3], [0.3, -0.2]],
    "student.fc.bias": [0.0, 0.0, 0.0],
    "network.first.weight": [[0.5, -0.3], [0.2, 0.4]],
    "network.first.bias": [0.0, 0.0],
    "network.last.branches": V,
    "network.last.projection": np.eye(6).tolist(),
    "network.last.weight": [0.5],
    "network.last.layer.weight": [[0.3, -0.2], [-0.1, 0.4]],
    "network.last.layer.bias": [0.1, -0.1],
}
TEACHER = [1.0, 0.0, 0.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.0]
IMAGES = [[[1.0, 0.0], [0.0, 1.0], [-1.0, 1.0]], [[1.0, 0.5], [-1.0, -1.0]]]
CLASSES = [[0, 1, 1], [1, 0]]
BATCHES = {0: [[0, 1], [2]], 1: [[0, 1]]}
TEST = torch.tensor([[0.5, -1.0]], dtype=torch.float64)


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), atol=6e-9, rtol=0)


def network() -> nn.Module:
    module = nn.Sequential()
    for name, part in (("first", nn.Linear(2, 2)), ("tanh", nn.Tanh()), ("last", nn.Linear(2, 2))):
        module.add_module(name, part)
    return module


class Run:
    """The two rounds, by the server's and the clients' own functions."""

    def __init__(self, more: str = "") -> None:
        method = parse(f"fedcg(domains=3, every=1, classifier=logistic(){more})", "method")
        self.server = method.server
        self.learner = Learner(network, (2,), 2, seed=0, dtype="float64", pieces=method.client)
        self.layout = self.learner.flat.layout
        local = LocalTraining(lr=0.5, orders=[BATCHES, BATCHES])
        self.job = ClientJob(self.learner, method.client, local, 0)
        self.data = [
            ClientData(
                Examples(torch.tensor(x, dtype=torch.float64), torch.tensor(y), 2),
                torch.arange(len(y)),
            )
            for x, y in zip(IMAGES, CLASSES, strict=True)
        ]
        params = self.learner.initial().params
        for name, place in self.layout.slices.items():
            params[place] = torch.tensor(START[name], dtype=torch.float64).reshape(-1)
        self.model = Model(params, self.learner.initial().buffers)
        teacher = torch.tensor(TEACHER, dtype=torch.float64)
        self.state: ServerState = {
            "fedcg": {"teacher": teacher, "teacher_buffers": teacher.new_empty(0)}
        }
        self.sent: list[Broadcast] = []

    def round(self, t: int) -> None:
        def send(broadcast: Broadcast) -> Replies:
            self.sent.append(broadcast)
            replies = (
                run_client(self.job, Request(k, broadcast, {}), self.data[k])[0] for k in (0, 1)
            )
            return aggregate(broadcast, replies, population=2, weighting="sized")

        step = server_step(
            self.server,
            self.state,
            send,
            Broadcast(t, self.model.params, self.model.buffers, 0.5),
            learner=self.learner,
        )
        self.model, self.state = step.model, step.state

    def of(self, name: str) -> Tensor:
        shape = self.layout.shapes[self.layout.names.index(name)]
        return self.model.params[self.layout.slices[name]].view(shape)

    @property
    def graph(self) -> Tensor:
        return self.model.buffers[graph_slice(self.layout)].view(3, 3)

    def output(self, *inputs: Tensor, **changes: Any) -> Tensor:
        flat = self.learner.copy()
        flat.load(self.model.params)
        flat.buffers = self.model.buffers
        module = flat.module
        assert isinstance(module, DomainNetwork)
        last = module.network.get_submodule("last")
        assert isinstance(last, BranchedLayer)
        if "graph" in changes:
            flat.buffers = changes.pop("graph").reshape(-1)
        for name, value in changes.items():
            setattr(module if name == "soft" else last, name, value)
        return flat.forward(*inputs)[0]

    def student(self, inputs: Tensor, params: Tensor | None = None) -> Tensor:
        """The student's scores."""
        flat = self.learner.copy()
        flat.load(self.model.params if params is None else params)
        with torch.no_grad():
            scores: Tensor = flat.module.get_submodule("student")(inputs)
        return scores

    def domains(self, client: int) -> list[int]:
        piece = self.job.pieces[0]
        assert isinstance(piece, Branches)
        request = Request(client, self.sent[-1], {})
        found = piece.domains_of(open_context(self.job, request, self.data[client], piece))
        return (found + 1).tolist()


def test_the_graph_and_its_gradients() -> None:
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 10.0]], dtype=torch.float64)
    graph = distance_graph(rows, 0.5)
    expected = [
        [0.5, 0.33333333, 0.16666667],
        [0.28647451, 0.5, 0.21352549],
        [0.20074581, 0.29925419, 0.5],
    ]
    close(graph, expected)
    layer = nn.Linear(2, 1, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, -1.0]]))
    drawn = [nn.Linear(2, 1, bias=False).double() for _ in rows]
    for one, row in zip(drawn, rows, strict=True):
        one.weight.data = row.view(1, 2)
    branched = BranchedLayer(layer, drawn, BranchSettings(3, weight=0.1)).double()
    with torch.no_grad():
        branched.weight.fill_(0.1)  # type: ignore[union-attr]
    close(
        branched.rows(graph).detach(),
        [[1, 3], [1.5, 4.13525492], [0.89776256, 6.19701675]],
    )
    x = torch.tensor([[2.0, 1.0]], dtype=torch.float64)
    branched.graph = graph
    branched.route = torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64)
    close(branched(x).detach(), [[1.71368474]])
    branched.route = torch.tensor([1])
    z = branched(x)
    close(z.detach(), [[1.71352549]])
    z.sum().backward()
    close(
        branched.branches.grad,
        [[0.0572949, 0.02864745], [0.1, 0.05], [0.0427051, 0.02135255]],
    )
    close(branched.projection.grad, [[0.3, 0.15], [0.82705098, 0.41352549]])
    close(branched.weight.grad, [7.13525492])  # type: ignore[union-attr]


def test_hamming_distances_of_binary_numbers() -> None:
    close(hamming_graph(4, 0.5)[0], [0.5, 0.2, 0.2, 0.1])
    row = hamming_graph(32, 0.5)[0].double()
    by_distance = {bits: row[2**bits - 1] for bits in range(1, 6)}
    expected = [0.03382187, 0.01691094, 0.01127396, 0.00845547, 0.00676437]
    np.testing.assert_allclose(list(by_distance.values()), expected, atol=1e-8)


def test_two_rounds_of_a_whole_run() -> None:
    run = Run()
    run.round(0)
    assert [run.domains(0), run.domains(1)] == [[1, 2, 2], [1, 3]]
    close(run.of("network.last.weight"), [0.53191224])
    close(
        run.of("network.last.branches"),
        [
            [0.40461024, -0.2, 0.09538976, 0.30452677, 0.20249573, -0.1],
            [-0.30098200, 0.47287524, 0.14795276, -0.40154145, -0.10026101, 0.39732626],
            [0.09629791, 0.08992678, -0.5, 0.21007322, 0.31875659, 0.18124341],
        ],
    )
    w = run.of("network.last.projection")
    close(
        [w[0, 0], w[0, 5], w[5, 0], w[1, 5], w[5, 5]],
        [1.00147389, -0.03068941, -0.00120144, 0.04480588, 1.02859284],
    )
    close(torch.linalg.matrix_norm(w - torch.eye(6)), 0.09456405)
    first = [[0.51033335, -0.37590786], [0.16637692, 0.49857459]]
    close(run.of("network.first.weight"), first)
    last = [[0.40248738, -0.28559826], [-0.20248738, 0.48559826]]
    close(run.of("network.last.layer.weight"), last)
    student = [[0.48018104, 0.26696126], [-0.27699161, 0.01937165], [0.19681057, -0.38633291]]
    close(run.of("student.fc.weight"), student)
    close(run.of("student.fc.bias"), [-0.04436967, 0.16787906, -0.12350939])
    close(
        run.graph,
        [
            [0.5, 0.18662279, 0.31337721],
            [0.23099981, 0.5, 0.26900019],
            [0.29524882, 0.20475118, 0.5],
        ],
    )
    close(run.student(TEST).softmax(1), [[0.27580864, 0.29915425, 0.42503712]])
    close(run.output(TEST), [0.37100100, -0.18027764])
    close(run.output(TEST, soft=False), [0.39975814, -0.19277132])

    run.round(1)
    close(run.sent[1].extras["fedcg"]["teacher"][:6].view(3, 2), student)
    assert [run.domains(0), run.domains(1)] == [[1, 1, 2], [1, 2]]
    close(run.of("network.last.weight"), [0.53080479])
    close(run.graph[0, 1], 0.18650135)
    v = run.of("network.last.branches")
    close([v[0, 0], v[2, 4]], [0.41411310, 0.30912353])
    close(run.output(TEST), [0.45984909, -0.27737764])
    close(run.output(TEST, soft=False), [0.48566366, -0.28665834])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"graph": torch.eye(3)}, (0.23559043, -0.06652504)),
        ({"graph": torch.full((3, 3), 1 / 3).double()}, (0.37234842, -0.20476561)),
        ({}, (0.31324641, -0.17668546)),
        ({"relu": False}, (0.30579286, -0.16792310)),
        ({"agnostic": False}, (0.00965566, 0.17978322)),
        (
            {"agnostic": False, "relu": False, "graph": torch.full((3, 3), 1.0).double() / 3},
            (0.12785967, 0.09025490),
        ),
    ],
)
def test_variants_of_the_start_model(changes: dict[str, Any], expected: Any) -> None:
    run = Run()
    graph = distance_graph(torch.tensor(V, dtype=torch.float64), 0.5)
    second = torch.tensor([1])
    close(run.output(TEST, second, **{"graph": graph, **changes}), expected)


def test_the_losses_of_the_first_round() -> None:
    run = Run()
    cross = nn.functional.cross_entropy
    losses: list[float] = []
    for client, found in ((0, [0, 1]), (1, [0, 2])):
        flat, domains = run.learner.copy(), torch.tensor(found)
        flat.load(run.model.params)
        batch = run.data[client].batch(torch.tensor(BATCHES[client][0]), torch.float64)
        scores = run.student(batch.inputs)
        output = flat.forward(batch.inputs, domains)
        losses += [float(cross(output, batch.targets)), float(cross(scores, domains))]
    close(losses, [0.56107094, 1.23075128, 0.63418902, 1.01537620])
    logits = torch.tensor([[1.0, 0.0, -1.0]], dtype=torch.float64)
    close(cross(logits, torch.tensor([2])), 2.40760596)
    run.round(0)
    reply, _ = run_client(run.job, Request(0, run.sent[0], {}), run.data[0])
    close(reply.metrics["loss"], (0.56107094 + 0.48687257) / 2)
    cut = LocalTraining(lr=0.5, orders=[{0: [[0, 1]]}])
    one_step, _ = run_client(replace(run.job, local=cut), Request(0, run.sent[0], {}), run.data[0])
    third = run.data[0].batch(torch.tensor([2]), torch.float64)
    after = run.sent[0].params - one_step.delta
    close(cross(run.student(third.inputs, after), torch.tensor([1])), 0.80812427)


def test_with_lambda_zero_only_lambda_has_a_gradient() -> None:
    run = Run()
    at = run.layout.slices["network.last.weight"]
    run.model.params[at] = 0.0
    batch = run.data[0].batch(torch.tensor([0, 1]), torch.float64)

    def loss(module: nn.Module) -> Tensor:
        return nn.functional.cross_entropy(
            module(batch.inputs, torch.tensor([0, 1])), batch.targets
        )

    gradient = run.learner.gradient_of(loss, run.model.params)
    for name in ("network.last.branches", "network.last.projection"):
        assert not gradient[run.layout.slices[name]].any()
    assert gradient[at].any()
