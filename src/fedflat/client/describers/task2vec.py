"""Task2Vec: how much each filter of a probe network matters for a client's data.

Achille et al., Task2Vec: Task Embedding for Meta-Learning, ICCV 2019.

1. The probe is frozen. A new last layer is fitted to the probe's features of the client's examples.
2. Labels are drawn from that model's own probabilities. The squared gradients of their loss by the
   probe's weights are averaged: the diagonal of the Fisher information.
3. The vector has the mean over each filter of every layer with a ``weight`` except the last layer.

An epoch is a number of draws with replacement in which every class of the client is equally likely.
The authors' probe was trained on ImageNet, whose weights are not available here. Ours is the run's
own model, trained by the server on its own data before it is sent (``probe_epochs``, with the run's
local settings). It is stored in the run folder. Vectors of different probes cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.client.instructions import Describer
from fedflat.client.learner import Learner
from fedflat.client.training import ClientWork
from fedflat.core.seeds import torch_generator
from fedflat.data.examples import ClientData, arguments
from fedflat.data.federation import Federation
from fedflat.errors import MOST_AT_ONCE, SettingError, choice, number
from fedflat.registry.specs import register

AT_A_TIME = 256
"""Number of examples in a batch of features."""


class Probe:
    """A network without its last layer."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module.eval()
        owner = list(dict(module.named_parameters()))[-1].rpartition(".")[0]
        self.last = module.get_submodule(owner)
        parts = [part for part in module.modules() if part is not self.last]
        found = [getattr(part, "weight", None) for part in parts]
        self.weights = [weight for weight in found if isinstance(weight, nn.Parameter)]
        if not self.weights:
            raise SettingError(
                "task2vec: the probe has no layer before its last one. Use a deeper model."
            )

    def __call__(self, inputs: Any) -> Tensor:
        """Return the input of the last layer."""
        seen: list[Tensor] = []
        hook = self.last.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
        try:
            self.module(*arguments(inputs))
        finally:
            hook.remove()
        return seen[-1]


def fisher(
    probe: Callable[[Any], Tensor],
    head: Callable[[Tensor], Tensor],
    weights: Sequence[Tensor],
    batches: Iterable[Any],
    draw: Callable[[Tensor], Tensor],
    per: str = "batch",
) -> list[Tensor]:
    """Return the mean squared gradient by each weight, of the loss of labels drawn from the logits.

    per
        ``"batch"`` squares the gradient of a batch's mean loss, as the authors' code does; that is
        about the Fisher information divided by the batch size. ``"sample"`` squares the gradient of
        each example.
    """
    total, count = [torch.zeros_like(w) for w in weights], 0
    for inputs in batches:
        logits = head(probe(inputs))
        loss = cross_entropy(logits, draw(logits.detach()), reduction="none")
        parts = [loss.mean()] if per == "batch" else list(loss)
        for at, part in enumerate(parts, start=1):
            slopes = torch.autograd.grad(
                part, weights, retain_graph=at < len(parts), allow_unused=True
            )
            for sum_, slope in zip(total, slopes, strict=True):
                if slope is not None:
                    sum_ += slope**2
        count += len(parts)
    return [sum_ / count for sum_ in total]


def by_filter(values: Sequence[Tensor]) -> Tensor:
    """Return the mean over each filter (first axis) of one layer after the other.

    >>> by_filter([torch.tensor([[1.0, 3.0], [5.0, 5.0]]), torch.tensor([7.0])]).tolist()
    [2.0, 5.0, 7.0]
    """
    return torch.cat([value.reshape(len(value), -1).mean(1) for value in values])


def balanced_batches(
    labels: Tensor, draws: int, batch: int, rng: torch.Generator
) -> Iterator[Tensor]:
    """Yield batches of indices drawn with replacement, every class equally likely.

    A short last batch is left out.
    """
    chances = 1 / torch.bincount(labels).double()[labels]
    indices = torch.multinomial(chances, draws, replacement=True, generator=rng)
    return iter(indices[: draws // batch * batch].split(batch))


def sample_labels(logits: Tensor, rng: torch.Generator) -> Tensor:
    """Return a label for each row, drawn from its softmax."""
    return torch.multinomial(logits.softmax(1).cpu(), 1, generator=rng)[:, 0].to(logits.device)


@register("describer", "task2vec")
@dataclass(frozen=True, repr=False)
class Task2Vec(Describer):
    """How much each filter of the model that is sent matters for the client's data.

    epochs, draws, batch
        The last layer is fitted for ``epochs`` epochs of ``draws`` draws in batches of ``batch``.
        One more epoch is for the Fisher information.
    fisher
        ``"batch"`` or ``"sample"``: whose gradients are squared.
    lr, decay
        Learning rate and weight decay of Adam, for the last layer.
    probe_epochs
        Epochs that the server trains the probe on its own data (``--server-data``); 0 for a random
        probe.
    """

    needs_model = True
    reveals = "the server learns how much each filter of a probe matters for every client's data"

    epochs: int = 10
    draws: int = 10_000
    batch: int = 64
    fisher: str = "batch"
    lr: float = 4e-4
    decay: float = 1e-4
    probe_epochs: int = 10

    def __post_init__(self) -> None:
        number("task2vec", "epochs", self.epochs, low=1, whole=True)
        number("task2vec", "batch", self.batch, low=1, high=MOST_AT_ONCE, whole=True)
        number("task2vec", "draws", self.draws, low=self.batch, high=MOST_AT_ONCE, whole=True)
        choice("task2vec", "fisher", self.fisher, ["batch", "sample"])
        number("task2vec", "lr", self.lr, low=0, open_low=True)
        number("task2vec", "decay", self.decay, low=0)
        number("task2vec", "probe_epochs", self.probe_epochs, low=0, whole=True)

    @property
    def probe(self) -> int:
        return self.probe_epochs

    def check(self, fed: Federation, learner: Learner, public: ClientData | None) -> None:
        """Refuse examples without classes, and a model without a layer before its last one."""
        if not fed.test.examples.has_classes:
            raise SettingError(
                "task2vec: clients are described by their classes, but these data have none. Use "
                "another description."
            )
        Probe(learner.flat.module)

    def describe(self, client: ClientWork) -> Tensor:
        learner, data, broadcast = client.job.learner, client.data, client.request.broadcast
        learner.flat.load(broadcast.params)
        learner.flat.buffers = broadcast.buffers
        rng = torch_generator(client.job.seed, "task2vec", broadcast.round, client.request.client)
        probe, labels = Probe(learner.flat.module), data.labels.cpu()
        everything = torch.arange(len(data)).split(AT_A_TIME)
        with torch.no_grad():
            features = torch.cat(
                [probe(data.batch(indices, learner.dtype).inputs) for indices in everything]
            )
        head = self.fit_head(features, labels, data.examples.classes, rng)
        with torch.enable_grad():
            chosen = balanced_batches(labels, self.draws, self.batch, rng)
            batches = (data.batch(indices, learner.dtype).inputs for indices in chosen)
            found = fisher(
                probe,
                head,
                probe.weights,
                batches,
                lambda logits: sample_labels(logits, rng),
                self.fisher,
            )
        return by_filter(found)

    def fit_head(
        self, features: Tensor, labels: Tensor, classes: int, rng: torch.Generator
    ) -> nn.Linear:
        """Return a last layer, initialised as `torch.nn.Linear` and fitted to these features."""
        head: nn.Linear = nn.utils.skip_init(
            nn.Linear, features.shape[1], classes, dtype=features.dtype
        )
        with torch.no_grad():
            for p in head.parameters():
                p.uniform_(-(features.shape[1] ** -0.5), features.shape[1] ** -0.5, generator=rng)
        head.to(features.device)
        optimiser = torch.optim.Adam(head.parameters(), lr=self.lr, weight_decay=self.decay)
        with torch.enable_grad():
            for _ in range(self.epochs):
                for indices in balanced_batches(labels, self.draws, self.batch, rng):
                    optimiser.zero_grad()
                    cross_entropy(
                        head(features[indices]), labels[indices].to(features.device)
                    ).backward()
                    optimiser.step()
        return head.requires_grad_(False)
