"""A small network whose features are used to compare images, in place of Inception.

Two convolutions and a layer of 64 features under a classifier, trained on the training images of a
data set for a fixed number of steps, from a fixed seed. It is the same for all runs on these
images, whatever the partition. Its distances can be compared between such runs only, not with
distances by other features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.core.seeds import derive, seed_modules
from fedflat.data.examples import ClientData

EPSILON = 1e-8


class ModuleAdam:
    """Adam with epsilon 1e-8 on every trainable parameter.

    A step is ``lr * m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + 1e-8)``.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, betas: tuple[float, float]
    ) -> None:
        self.parameters = [one for one in parameters if one.requires_grad]
        self.lr, self.betas, self.steps = lr, betas, 0
        self.first, self.second = (
            [torch.zeros_like(one) for one in self.parameters] for _ in range(2)
        )

    def step(self, loss: Tensor) -> None:
        """Make one step against the gradient of `loss`."""
        gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        (b1, b2), self.steps = self.betas, self.steps + 1
        with torch.no_grad():
            for w, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
                m.mul_(b1).add_(g, alpha=1 - b1)
                v.mul_(b2).addcmul_(g, g, value=1 - b2)
                scale = (v / (1 - b2**self.steps)).sqrt_().add_(EPSILON)
                w.addcdiv_(m, scale, value=-self.lr / (1 - b1**self.steps))


FEATURES = 64
STEPS, BATCH, RATE = 1500, 64, 1e-3
LARGE = 16
"""Side in pixels from which images are pooled after the first convolution."""
DESCRIPTION = (
    f"{FEATURES} features of a small convolutional network trained on these training images, "
    "in place of an Inception network: such distances can only be compared between runs on the "
    "same images"
)
"""Description of the features for readers of a report."""


class FeatureNetwork:
    """The trained network. Images are inputs as models get them."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        channels, *sides = shape
        smaller = nn.MaxPool2d(2) if min(sides) >= LARGE else nn.Identity()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1),
            nn.ReLU(),
            smaller,
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(256, FEATURES),
            nn.ReLU(),
        )
        self.classes = nn.Linear(FEATURES, classes)

    @torch.no_grad()
    def of(self, images: Tensor) -> Tensor:
        found: Tensor = self.features(images.float().cpu())
        return found

    @torch.no_grad()
    def guess(self, images: Tensor) -> Tensor:
        """Return the predicted classes of images."""
        found: Tensor = self.classes(self.of(images)).argmax(1)
        return found


def train_feature_network(
    data: ClientData,
    shape: tuple[int, ...],
    classes: int,
    steps: int = STEPS,
    on_progress: Callable[[int], None] = lambda step: None,
) -> FeatureNetwork:
    """Train the network on these images. Their partition and order make no difference."""
    index = data.index.sort().values
    with torch.random.fork_rng(devices=[]):
        seed_modules(derive(0, "judge"), "cpu")
        network = FeatureNetwork(shape, classes)
        adam = ModuleAdam(
            [*network.features.parameters(), *network.classes.parameters()], RATE, (0.9, 0.999)
        )
        for step in range(steps):
            places = index[torch.randint(len(index), (min(BATCH, len(index)),))]
            batch = data.examples.batch(places, torch.float32)
            adam.step(
                cross_entropy(
                    network.classes(network.features(batch.inputs.cpu())), batch.targets.cpu()
                )
            )
            on_progress(step + 1)
    return network


Moments = tuple[Tensor, Tensor]
"""Mean and covariance."""


def moments(features: Tensor) -> Moments:
    """Return mean and covariance of rows.

    >>> mean, covariance = moments(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> mean.tolist(), covariance.tolist()
    ([1.0, 1.0], [[2.0, 0.0], [0.0, 0.0]])
    """
    rows = features.double()
    centred = rows - rows.mean(0)
    return rows.mean(0), centred.T @ centred / (len(rows) - 1)


def frechet(a: Moments, b: Moments) -> float:
    """Return the Fréchet distance between two sets of features, each modelled as a Gaussian.

        ||mu - mu'||^2 + Tr(S + S' - 2 (S S')^(1/2))

    Covariances are over n - 1. The distance of a set from itself is 0. Recovered images that differ
    from the real ones have a large distance, so higher is safer.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> frechet((0 * one, one.view(1, 1)), (one, 4 * one.view(1, 1)))
    2.0
    """
    (mu, s), (nu, t) = a, b
    # The eigenvalues of (S S')^(1/2) are the singular values of S^(1/2) S'^(1/2), also where S has
    # no inverse.
    cross = torch.linalg.svdvals(_root(s) @ _root(t)).sum()
    return max(0.0, float((mu - nu).square().sum() + s.trace() + t.trace() - 2 * cross))


def _root(s: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(s)
    root: Tensor = vectors * values.clamp(min=0).sqrt() @ vectors.T
    return root
