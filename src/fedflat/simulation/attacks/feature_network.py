"""A network of our own by whose features images are compared, where no Inception network can be
had.

Two convolutions and a layer of 64 features under a classifier, trained on a data set's own training
images for a fixed number of steps, from a seed of its own: the same for all runs on these images,
whoever held them. Distances by its features compare such runs with each other, and with nothing
that was measured by other features.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedflat.core.seeds import derive, seed_modules
from fedflat.data.examples import ClientData
from fedflat.simulation.attacks.adam import ModuleAdam

FEATURES = 64
STEPS, BATCH, RATE = 1500, 64, 1e-3
LARGE = 16
"""Pixels of a side from which images are made smaller after the first convolution."""
SAID = (
    f"{FEATURES} features of a small convolutional network of our own, trained on these training images (there are no "
    "Inception weights here): such distances compare runs on the same images with each other only"
)


class FeatureNetwork:
    """The trained network: features of images as they are given to models."""

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
        """The features of images, a row each."""
        found: Tensor = self.features(images.float().cpu())
        return found

    @torch.no_grad()
    def guess(self, images: Tensor) -> Tensor:
        """The classes it takes images for."""
        found: Tensor = self.classes(self.of(images)).argmax(1)
        return found


def trained_on(
    data: ClientData,
    shape: tuple[int, ...],
    classes: int,
    steps: int = STEPS,
    on_progress: Callable[[int], None] = lambda step: None,
) -> FeatureNetwork:
    """The judge of these images; who holds them, and in which order they come, makes no
    difference."""
    index = data.index.sort().values
    with torch.random.fork_rng(devices=[]):
        seed_modules(derive(0, "judge"), "cpu")
        judge = FeatureNetwork(shape, classes)
        adam = ModuleAdam(
            [*judge.features.parameters(), *judge.classes.parameters()], RATE, (0.9, 0.999)
        )
        for step in range(steps):
            places = index[torch.randint(len(index), (min(BATCH, len(index)),))]
            batch = data.examples.batch(places, torch.float32)
            adam.step(
                cross_entropy(
                    judge.classes(judge.features(batch.inputs.cpu())), batch.targets.cpu()
                )
            )
            on_progress(step + 1)
    return judge
