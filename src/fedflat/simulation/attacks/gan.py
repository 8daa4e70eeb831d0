"""Recovery of images with a GAN: one client trains a generator against every model it is sent.

Hitaj, Ateniese and Perez-Cruz, Deep Models under the GAN: Information Leakage from Collaborative
Deep Learning, CCS 2017, in the passive form of Caldarola's doctoral thesis (section 5.2).

    at each request   D = the model as it was sent, with one linear layer from its outputs to one
                      number; `epochs` times, over the attacker's own images x in batches, with
                      random numbers z:
                          D   - log D(x) - log(1 - D(G(z)))     targets N(1, noise), N(0, noise)
                          G   - log D(G(z))
    then              the client trains and replies as usual

The generator G is stored between rounds. D and the moments of both Adams start anew. The client
sends nothing of it, so all numbers of the run are those of the run without the attack. The attack
is computed beside the run, from what the client is sent and its own data, on one thread. So the
bits are the same wherever client work runs. `fedflat analyse RUN --recovered` analyses the
recovered images.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from fedflat.core.flat import FlatModule, Model
from fedflat.core.messages import Broadcast
from fedflat.core.seeds import derive, seed_modules
from fedflat.data.examples import ClientData
from fedflat.errors import MOST_AT_ONCE, SettingError, number
from fedflat.registry.specs import register
from fedflat.simulation.attacks.attack import Attack, AttackedRun, AttackState, refuse_elsewhere
from fedflat.simulation.attacks.feature_network import ModuleAdam


def discriminator_loss(real: Tensor, fake: Tensor, noise: float = 0.0) -> Tensor:
    """Return the loss from the discriminator's logits of real and of generated images.

    Its targets have the standard deviation `noise` around 1 and 0.

    >>> real, fake = torch.logit(torch.tensor([0.8, 0.3], dtype=torch.float64))
    >>> round(float(discriminator_loss(real, fake)), 8), round(float(generator_loss(fake)), 8)
    (0.5798185, 1.2039728)
    """
    targets = [
        mean + noise * torch.randn_like(mean)
        for mean in (torch.ones_like(real), torch.zeros_like(fake))
    ]
    return cross_entropy(real, targets[0]) + cross_entropy(fake, targets[1])


def generator_loss(fake: Tensor) -> Tensor:
    """Return the loss from the discriminator's logits of generated images."""
    return cross_entropy(fake, torch.ones_like(fake))


@dataclass(frozen=True, repr=False)
class Gan(Attack):
    """A client that trains a generator of images against the models it is sent.

    batch
        Batch size of both networks, at least 2.
    lr
        Learning rate of Adam, for both networks.
    """

    key = "gan"

    client: int = 0
    """The attacking client."""
    epochs: int = 300
    """Epochs over the attacker's images per request."""
    batch: int = 64
    lr: float = 2e-4
    betas: tuple[float, float] = (0.5, 0.999)
    """Betas of Adam, for both networks."""
    noise: float = 0.1
    """Standard deviation of the discriminator's targets."""
    z: int = 100
    """Number of random inputs of the generator."""
    width: int = 128
    """Channels of the generator's last hidden layer. Each layer before it has twice as many."""

    def __post_init__(self) -> None:
        number("gan", "client", self.client, low=0, whole=True)
        number("gan", "epochs", self.epochs, low=1, whole=True)
        number("gan", "batch", self.batch, low=2, high=MOST_AT_ONCE, whole=True)
        number("gan", "lr", self.lr, low=0, open_low=True)
        number("gan", "noise", self.noise, low=0)
        for name in ("z", "width"):
            number("gan", name, getattr(self, name), low=1, high=4096, whole=True)
        pair = self.betas
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise SettingError(
                f"gan: betas must be two numbers such as [0.5, 0.999], found {pair!r}."
            )
        for beta in pair:
            number("gan", "each of betas", beta, low=0, high=1)
            if beta == 1:
                raise SettingError("gan: each of betas must be below 1, found 1.")
        object.__setattr__(self, "betas", tuple(pair))

    @property
    def observes_broadcasts(self) -> bool:
        """True: the attacker uses the models it is sent."""
        return True

    def check(self, attacked: AttackedRun) -> None:
        """Require that the client exists and has images, and that the model is a classifier."""
        refuse_elsewhere(self, attacked)
        if self.client >= attacked.fed.population:
            raise SettingError(
                f"gan: client {self.client} attacks, but clients are numbered 0 to "
                f"{attacked.fed.population - 1}. Choose one of them."
            )
        if not (attacked.learner.task.classifies and attacked.learner.takes_images):
            raise SettingError(
                f"gan: images are recovered from a classifier of images, but the task of "
                f"{attacked.on} is {attacked.learner.task} with inputs of shape "
                f"{attacked.fed.shape}. Use images with one class each."
            )
        examples = len(attacked.fed.data(self.client))
        if examples < 2:
            raise SettingError(
                f"gan: client {self.client} has {examples} example, and its networks need two. "
                "Choose another client."
            )

    def remark(self, attacked: AttackedRun) -> str:
        """Return a sentence about the work of the attacker."""
        examples = len(attacked.fed.data(self.client))
        steps = self.epochs * len(list(self._batches(examples)))
        return (
            f"attack: client {self.client} trains a generator for {steps:,} steps in each of its "
            "rounds"
        )

    def new_generator(self, attacked: AttackedRun) -> FlatModule:
        """Return the generator before the first round of the attacker."""
        learner = attacked.learner
        with torch.random.fork_rng(devices=[]):
            seed_modules(derive(attacked.seed, "attack/generator"), "cpu")
            module = generator(attacked.fed.shape, self.z, self.width)
        return FlatModule(module, dtype=learner.dtype, device=learner.device)

    def load_generator(self, attacked: AttackedRun, notes: AttackState) -> FlatModule:
        """Return the generator as it was after the last round of the attacker."""
        flat = self.new_generator(attacked)
        if notes:
            flat.load(notes["params"])
            flat.buffers = notes["buffers"]
        return flat

    def observe(
        self, attacked: AttackedRun, notes: AttackState, client: int, broadcast: Broadcast
    ) -> None:
        """Train the generator against the model that the attacker was sent."""
        if client != self.client:
            return
        requests = int(notes["requests"]) if notes else 0
        flat, data = self.load_generator(attacked, notes), attacked.fed.data(client)
        with torch.random.fork_rng(devices=[]):
            seed_modules(derive(attacked.seed, "attack/visit", requests), attacked.learner.device)
            mean_losses = self._train(
                attacked, flat.module, data, Model(broadcast.params, broadcast.buffers)
            )
        model = flat.model()
        notes |= {
            "params": model.params,
            "buffers": model.buffers,
            "losses": mean_losses,
            "requests": torch.tensor(requests + 1),
        }

    def _train(
        self, attacked: AttackedRun, module: nn.Module, data: ClientData, sent: Model
    ) -> Tensor:
        """Train the generator.

        Returns the mean losses of the last epoch, the discriminator's first.
        """
        learner = attacked.learner
        received = learner.copy()
        received.load(sent.params)
        received.buffers = sent.buffers
        last = nn.Linear(learner.outputs, 1).to(learner.device, learner.dtype)
        discriminator = nn.Sequential(received.module, last).train()
        module.train()
        adams = [
            ModuleAdam(one.parameters(), self.lr, self.betas) for one in (discriminator, module)
        ]
        low, high = bounds(data, learner.dtype)
        losses: list[Tensor] = []
        for _ in range(self.epochs):
            losses = []
            for places in self._batches(len(data), torch.randperm(len(data))):
                real = data.batch(places, learner.dtype).inputs
                z = torch.randn(len(places), self.z, dtype=learner.dtype, device=learner.device)
                fake = rescale(module(z), low, high)
                first = discriminator_loss(
                    discriminator(real), discriminator(fake.detach()), self.noise
                )
                adams[0].step(first)
                second = generator_loss(discriminator(fake))
                adams[1].step(second)
                losses.append(torch.stack([first.detach(), second.detach()]))
        return torch.stack(losses).mean(0).double().cpu()

    def _batches(self, examples: int, order: Tensor | None = None) -> Iterator[Tensor]:
        """Iterate over the indices of an epoch in batches. A batch of one example is left out."""
        order = torch.arange(examples) if order is None else order
        return (places for places in order.split(self.batch) if len(places) > 1)

    def measure(self, notes: AttackState) -> dict[str, float]:
        """Return the number of rounds of the attacker and the losses of both networks."""
        if not notes:
            return {"recovery_requests": 0}
        first, second = notes["losses"].tolist()
        return {
            "recovery_requests": int(notes["requests"]),
            "discriminator_loss": first,
            "generator_loss": second,
        }

    @torch.no_grad()
    def images(self, attacked: AttackedRun, notes: AttackState, count: int, seed: int) -> Tensor:
        """Return `count` generated images, as inputs of the model."""
        flat, learner = self.load_generator(attacked, notes), attacked.learner
        bound = bounds(attacked.fed.data(self.client), learner.dtype)
        noise = torch.randn(
            count, self.z, generator=torch.Generator().manual_seed(seed), dtype=learner.dtype
        )
        parts = [flat.forward(part.to(learner.device)) for part in noise.split(256)]
        return rescale(torch.cat(parts), *bound)


def bounds(data: ClientData, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return minimum and maximum of each channel in a client's images, as inputs of the model."""
    images = data.batch(torch.arange(len(data)), dtype).inputs
    return images.amin((0, 2, 3), keepdim=True), images.amax((0, 2, 3), keepdim=True)


def rescale(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Map values from [-1, 1] to [low, high]."""
    return low + (values + 1) / 2 * (high - low)


gan = register("attack", "gan")(Gan)


WEIGHT_STD = 0.02
"""Standard deviation of the initial weights."""


def generator(shape: tuple[int, ...], z: int, width: int) -> nn.Module:
    """Return a new module from ``(N, z)`` to images ``(N, *shape)`` between -1 and 1.

    For 32 x 32 pixels: 100 numbers -> 512 channels of 4 x 4 -> 256 -> 128 -> the image's channels.
    Each step doubles width and height. There are batch normalisation and ReLU between, and tanh at
    the end. Initial weights are from N(0, 0.02). The sides are halved until one has 4 pixels or an
    odd number of them. The last hidden layer has ``width`` channels, each one before it twice as
    many.

    >>> import torch
    >>> generator((3, 32, 32), 100, 128)(torch.zeros(2, 100)).shape
    torch.Size([2, 3, 32, 32])
    >>> [tuple(p.shape[:2]) for p in generator((3, 32, 32), 100, 128).parameters() if p.dim() == 4]
    [(100, 512), (512, 256), (256, 128), (128, 3)]
    """
    channels, *first = shape
    steps = 0
    while all(side > 4 and side % 2 == 0 for side in first):
        steps, first = steps + 1, [side // 2 for side in first]
    wide = [width * 2**step for step in reversed(range(steps))]
    layers: list[nn.Module] = [nn.Unflatten(1, (z, 1, 1))]
    for place, (before, after) in enumerate(pairwise([z, *wide, channels])):
        (tall, broad), stride, padding = (first, 1, 0) if place == 0 else ([4, 4], 2, 1)
        last = place == steps
        layer = nn.ConvTranspose2d(before, after, (tall, broad), stride, padding, bias=last)
        nn.init.normal_(layer.weight, 0.0, WEIGHT_STD)
        layers += [layer, nn.Tanh()] if last else [layer, nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers)
