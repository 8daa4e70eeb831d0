"""FedCG: a branch of the network for each domain, mixed by a graph of the domains.

Caldarola, Mancini, Galasso, Ciccone, Rodola and Caputo, Cluster-driven Graph Federated Learning
over Multiple Domains, CVPR Workshops 2021, arXiv:2104.14628; equations are numbered as in
Caldarola's doctoral thesis, section 5.4. No code was published.

    layer l    z = f_a(h) + lambda_l sum_d w_d f_d(h)          parameters of f_d: row d of Vhat   5.12
    graph      Vhat = relu(A V W);  A_ii = beta,  A_ij = (1 - beta) h_ij / sum_{m != i} h_im
               h_ij = 1 / ||V_i - V_j||                        V: all layers with branches        5.14
    client     dh = argmax g_phi(x), the teacher's domain of each image
               one SGD step on CE(z, y), w one-hot at dh       of f_a, V, W, lambda
               one SGD step on -log g_varphi(x)[dh]            of the student                     5.11
    server     sized means of all that was trained; A from the new V; every T rounds phi <- varphi
    test       w = g_varphi(x), the student's probabilities ("soft"), or its largest ("hard")

The thesis prints neither T, nor the starts of lambda, V and W, nor the classifiers' network. Ours:
T = 10, lambda = 0 (the first forward pass is FedAvg's), V drawn as the layer itself, W = I, and the
task's own network with one output per domain. Section 5.4 names the teacher in the formula of the
test and the student in its words; we use the student.

Everything that is trained is one vector, so that all server optimizers and local pieces apply. The
student's gradient is added after SAM: its perturbation does not touch the student. ``A`` is a
buffer of the model and travels with it. The teacher is sent to clients and never returned.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.client.describers.trained_parameters import TrainedParameters
from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.learner import Learner
from fedflat.client.piece import BuildNetwork, ClientContext, EvalModel, ModelInfo, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import FlatModule, GradFn, Layout, Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.seeds import derive, seed_torch
from fedflat.core.stage import Stage
from fedflat.data.domain_inputs import with_numbers
from fedflat.data.examples import Batch, ClientData
from fedflat.data.k_means import k_means
from fedflat.errors import SettingError, choice, flag, number
from fedflat.models.domain_branches import (
    AUTO,
    BOTTLENECK,
    DOMAIN,
    FULL,
    LAST,
    OFF,
    STUDENT,
    BranchSettings,
    DomainNetwork,
    layers_with_branches,
    redrawn,
)
from fedflat.models.domain_graph import (
    branch_rows,
    distance_graph,
    graph_slice,
    hamming_graph,
    random_graph,
    student_slices,
)
from fedflat.models.spec import ModelSpec
from fedflat.server.piece import Send, ServerContext, ServerPiece

KEY = "fedcg"
CLASSIFIER, ORACLE, KMEANS = "classifier", "oracle", "kmeans"
DISTANCE, UNIFORM, HAMMING, EYE, RAND = "distance", "uniform", "hamming", "eye", "rand"
CHUNK = 256
"""Number of examples that the teacher labels at once."""


@dataclass(frozen=True, repr=False)
class Branches(Piece):
    """The client's half: the network with branches, the teacher's labels, the student's steps."""

    domains: int = 4
    labels: str = CLASSIFIER
    layers: str | tuple[str, ...] = LAST
    agnostic: bool = True
    projection: str = AUTO
    relu: bool = True
    adjacency: str = DISTANCE
    start: str = EYE
    test: str = "soft"
    weight: float = 0.0
    learn_weight: bool = True
    beta: float = 0.5
    rank: int = 64
    residual: bool = False
    classifier: ModelSpec | None = None

    stage, key = Stage.CORRECT, KEY

    def __post_init__(self) -> None:
        number("fedcg", "domains", self.domains, low=1, high=4096, whole=True)
        choice("fedcg", "labels", self.labels, [CLASSIFIER, ORACLE, KMEANS])
        choice("fedcg", "projection", self.projection, [AUTO, FULL, BOTTLENECK, OFF])
        choice("fedcg", "adjacency", self.adjacency, [DISTANCE, UNIFORM, HAMMING, EYE])
        choice("fedcg", "start", self.start, [EYE, RAND])
        choice("fedcg", "test", self.test, ["soft", "hard"])
        for name in ("agnostic", "relu", "learn_weight", "residual"):
            flag("fedcg", name, getattr(self, name))
        number("fedcg", "weight", self.weight)
        number("fedcg", "beta", self.beta, low=0, high=1)
        number("fedcg", "rank", self.rank, low=1, whole=True)
        self._check_layers()
        if self.classifier is not None and not isinstance(self.classifier, ModelSpec):
            raise SettingError(
                f"fedcg: classifier must be a model such as mlp([64]), found {self.classifier!r}."
            )
        if self.adjacency == HAMMING and self.domains & (self.domains - 1):
            raise SettingError(
                "fedcg: adjacency='hamming' compares the binary digits of domains, so their number "
                f"must be a power of two, found domains={self.domains}. Use another adjacency."
            )
        if self.adjacency == HAMMING and self.labels != ORACLE:
            raise SettingError(
                "fedcg: adjacency='hamming' compares the attributes of known domains, and the "
                f"numbers of those that labels={self.labels!r} finds have no meaning. Use "
                "labels='oracle' or another adjacency."
            )
        if self.adjacency in (UNIFORM, HAMMING) and self.start != EYE:
            raise SettingError(
                f"fedcg: adjacency={self.adjacency!r} stays as it is, so start={self.start!r} "
                "would change nothing. Leave start out."
            )

    def _check_layers(self) -> None:
        layers = self.layers
        if isinstance(layers, list):
            object.__setattr__(self, "layers", tuple(layers))
        elif not isinstance(layers, str | tuple):
            layers = ()
        names = (layers,) if isinstance(layers, str) else layers
        if not names or not all(isinstance(name, str) and name for name in names):
            raise SettingError(
                "fedcg: layers must be 'last', 'all', or a list of names of layers, found "
                f"{self.layers!r}."
            )

    @property
    def extra_gradients(self) -> int:  # type: ignore[override]
        """One, of the student's loss."""
        return int(self.labels == CLASSIFIER)

    @property
    def known_domains(self) -> int:
        return self.domains if self.labels == ORACLE else 0

    def module(self, build: BuildNetwork, sample: Tensor) -> nn.Module:
        network = build()
        names = layers_with_branches(network, self.layers, sample)
        how = BranchSettings(
            self.domains,
            self.agnostic,
            self.projection,
            self.rank,
            self.residual,
            self.relu,
            self.weight,
            self.learn_weight,
        )
        drawn = redrawn(network, build, self.domains)
        student = self._student(build, sample) if self.labels == CLASSIFIER else None
        return DomainNetwork(
            network,
            names,
            drawn,
            how,
            self.first_graph(),
            student,
            soft=self.test == "soft",
            by_client=self.labels == KMEANS,
        )

    def _student(self, build: BuildNetwork, sample: Tensor) -> nn.Module:
        """Return the classifier of domains, which must give each image a score per domain."""
        student = build(self.domains, self.classifier)
        trial = copy.deepcopy(student).eval()
        kind = torch.float32 if sample.is_floating_point() else sample.dtype
        try:
            with torch.no_grad():
                scores = trial(torch.zeros(sample.shape, dtype=kind))
            found = f"{len(sample)} inputs give scores of shape {tuple(scores.shape)}"
            fits = tuple(scores.shape) == (len(sample), self.domains)
        except (RuntimeError, IndexError, ValueError) as error:
            found, fits = str(error), False
        if not fits:
            network = "this model" if self.classifier is None else str(self.classifier)
            raise SettingError(
                f"fedcg: {network} cannot classify inputs of shape {tuple(sample.shape[1:])} into "
                f"{self.domains} domains: {found}. Set classifier= to a network with one score "
                "per domain, for images such as mlp([64]), or use labels='oracle'."
            )
        return student

    def first_graph(self) -> Tensor:
        """Return A before the first round."""
        if self.adjacency == UNIFORM:
            return torch.full((self.domains, self.domains), 1 / self.domains, dtype=torch.float64)
        if self.adjacency == HAMMING:
            return hamming_graph(self.domains, self.beta)
        return torch.eye(self.domains) if self.start == EYE else random_graph(self.domains)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse pieces that change batches."""
        for piece in model_info.pieces:
            if type(piece).batch is not Piece.batch and piece is not self:
                raise SettingError(
                    f"fedcg labels whole images with their domains, and {piece} changes them "
                    "afterwards. Leave one of them out."
                )

    def data(self, v: ClientContext, data: ClientData) -> ClientData:
        """Return the data with the domain of each image as a second input."""
        if self.labels == ORACLE:
            return data
        return with_numbers(data, self.domains_of(v))

    def domains_of(self, v: ClientContext) -> Tensor:
        """Return the teacher's domain of each of the client's images; the lowest of equal ones.

        A network that normalizes by the statistics of the batch sees all images at once.
        """
        place = student_slices(v.layout)
        params, buffers = v.sent.clone(), v.sent.new_zeros(sum(v.layout.buffer_sizes))
        params[place.params] = v.inbox["teacher"]
        buffers[place.buffers] = v.inbox["teacher_buffers"]

        def label(module: nn.Module) -> Tensor:
            together = any(
                isinstance(part, nn.modules.batchnorm._BatchNorm) and not part.track_running_stats
                for part in module.modules()
            )
            chunks = torch.arange(v.examples).split(v.examples if together else CHUNK)
            return torch.cat([_scores(module, v.inputs(chunk)).argmax(1) for chunk in chunks])

        found: Tensor = v.value_of(label, Model(params, buffers))
        return found

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        """Keep the batch for the student's step."""
        v.scratch["batch"] = batch
        return batch

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient, with that of the student's loss."""
        if self.labels != CLASSIFIER:
            return grad(w)
        images, domains = v.scratch["batch"].inputs
        gradient = grad(w)
        student = v.gradient_of(_student_loss(images, domains), w)
        part = student_slices(v.layout).params
        gradient = gradient.clone()
        gradient[part] += student[part]
        return gradient


@dataclass(frozen=True, repr=False)
class ClientBranches(Branches):
    """Branches for domains of clients, found by k-means on models that each trained alone.

    epochs
        Number of epochs that each client trains alone, before the first round.
    """

    epochs: int = 10

    @property
    def describers(self) -> tuple[Describer, ...]:
        """The parameters of each client's own model."""
        return (TrainedParameters(self.epochs, self.domains),)

    def shared_with_clients(self, descriptions: Descriptions) -> Mapping[str, Tensor]:
        vectors = torch.stack([one.cpu() for one in descriptions[self.describers[0]]])
        return {"domains": torch.from_numpy(k_means(vectors.double().numpy(), self.domains, 0))}

    def data(self, v: ClientContext, data: ClientData) -> ClientData:
        """Return the data with the client's domain as a second input."""
        domain = v.shared["domains"][v.client]
        return with_numbers(data, domain.expand(len(data)))

    def states_from_shared(self, shared: Mapping[str, Tensor]) -> Sequence[Mapping[str, Tensor]]:
        """Return the domain of each client, as `eval_model` takes it."""
        return [{"domain": domain.view(1)} for domain in shared["domains"]]

    def eval_model(
        self, layout: Layout, model: Model, states: Sequence[Mapping[str, Tensor]]
    ) -> EvalModel:
        """Return the model with the branches of these clients' domain."""
        if not states:
            return EvalModel(model)
        at = layout.buffer_names.index(DOMAIN)
        buffers = model.buffers.clone()
        buffers[sum(layout.buffer_sizes[:at])] = float(states[0]["domain"])
        return EvalModel(replace(model, buffers=buffers))


def _student_loss(images: Tensor, domains: Tensor) -> Callable[[nn.Module], Tensor]:
    return lambda module: cross_entropy(_scores(module, images), domains)


def _scores(module: nn.Module, images: object) -> Tensor:
    student: Tensor = module.get_submodule(STUDENT)(images)
    return student


@dataclass(frozen=True, repr=False)
class DomainServer(ServerPiece):
    """The server's half: the graph of the new branches, and the teacher.

    every
        Rounds after which the student replaces the teacher (T); 0: never.
    graph_from
        The first round, from 0, that uses a graph computed from the branches.
    """

    domains: int = 4
    every: int = 10
    graph_from: int = 1
    beta: float = 0.5
    teaches: bool = True
    computes: bool = True
    classifier: ModelSpec | None = None

    stage, key = Stage.AFTER, KEY

    def __post_init__(self) -> None:
        number("fedcg", "every", self.every, low=0, whole=True)
        number("fedcg", "graph_from", self.graph_from, low=1, whole=True)

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send the teacher; then compute the graph, and replace the teacher if it is time."""
        learner = context.learner
        if learner is None:
            return send(broadcast)
        layout, done = learner.flat.layout, broadcast.round + 1
        if self.teaches and "teacher" not in context.state:
            context.state.update(self.first_teacher(learner))
        replies = send(broadcast.enclose(self.key, **context.state) if self.teaches else broadcast)
        params, buffers = broadcast.params - replies.delta, replies.buffers
        if self.computes and done >= self.graph_from:
            buffers = buffers.clone()
            graph = distance_graph(branch_rows(layout, params, self.domains), self.beta)
            buffers[graph_slice(layout)] = graph.reshape(-1)
        if self.teaches and self.every and done % self.every == 0:
            place = student_slices(layout)
            context.state["teacher"] = params[place.params].clone()
            context.state["teacher_buffers"] = buffers[place.buffers].clone()
        return replace(replies, buffers=buffers)

    def first_teacher(self, learner: Learner) -> Mapping[str, Tensor]:
        """Return a random teacher, drawn independently of the student."""
        with torch.random.fork_rng(devices=[]):
            seed_torch(derive(learner.seed, "teacher"))
            network = learner.network(self.domains, self.classifier)
        model = FlatModule(network, dtype=learner.dtype, device=learner.device).model()
        return {"teacher": model.params, "teacher_buffers": model.buffers}


@method
def fedcg(
    domains: int = Branches.domains,
    labels: str = Branches.labels,
    layers: str | tuple[str, ...] = Branches.layers,
    agnostic: bool = Branches.agnostic,
    projection: str = Branches.projection,
    relu: bool = Branches.relu,
    adjacency: str = Branches.adjacency,
    start: str = Branches.start,
    test: str = Branches.test,
    every: int = DomainServer.every,
    weight: float = Branches.weight,
    learn_weight: bool = Branches.learn_weight,
    beta: float = Branches.beta,
    graph_from: int = DomainServer.graph_from,
    rank: int = Branches.rank,
    residual: bool = Branches.residual,
    classifier: ModelSpec | None = Branches.classifier,
    epochs: int = ClientBranches.epochs,
) -> Method:
    """Domain branches mixed by a graph (Caldarola et al., CVPR Workshops 2021).

    ``labels`` says who knows the domain of an image: a teacher and a student ("classifier"), the
    data ("oracle"), or k-means on models that each client trained alone ("kmeans").
    ``agnostic=False`` is the thesis' GCN. docs/fedcg.md explains all arguments.

    adjacency
        How domains are connected: "distance" of their parameters, "uniform", "hamming" or
        "eye".
    learn_weight
        Train the weight of the branches, lambda.
    epochs
        With labels="kmeans", epochs that each client trains alone.
    """
    kind = partial(ClientBranches, epochs=epochs) if labels == KMEANS else Branches
    client = kind(
        domains, labels, layers, agnostic, projection, relu, adjacency, start, test, weight,
        learn_weight, beta, rank, residual, classifier,
    )  # fmt: skip
    server = DomainServer(
        domains, every, graph_from, beta, labels == CLASSIFIER, adjacency == DISTANCE, classifier
    )
    return Method(client=(client,), server=(server,))
