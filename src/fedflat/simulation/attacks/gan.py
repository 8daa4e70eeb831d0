"""Recovery by a generative network: one client trains a generator against every model it is sent.

Hitaj, Ateniese and Perez-Cruz, Deep Models under the GAN: Information Leakage from Collaborative
Deep Learning, CCS 2017, in the passive form of Caldarola's doctoral thesis (section 5.2).

    at each visit   D = the model as it was sent, and one linear layer from its outputs to one number
                    epochs times, over the attacker's own images x in batches, with random numbers z:
                        D   - log D(x) - log(1 - D(G(z)))       targets drawn from N(1, noise) and N(0, noise)
                        G   - log D(G(z))
    then            the client trains and replies as if nothing had happened

The generator G is kept from visit to visit; D, and the moments of both Adams, begin anew. Nothing
of it is sent: all numbers of the run are those of the run without the attack. It is worked out
beside the run, from what that client is sent and what it holds, by one thread, so that the bits are
the same wherever visits are made. What was recovered is looked at by ``fedflat analyse RUN
--recovered``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from fedflat.core.flat import FlatModule, Model
from fedflat.core.messages import Broadcast
from fedflat.core.seeds import derive, seed_modules
from fedflat.data.examples import ClientData
from fedflat.errors import MOST_AT_ONCE, SettingError, number
from fedflat.registry.specs import register
from fedflat.simulation.attacks.adam import ModuleAdam
from fedflat.simulation.attacks.attack import Attack, AttackedRun, AttackState, refuse_elsewhere
from fedflat.simulation.attacks.generator import generator


def discriminator_loss(real: Tensor, fake: Tensor, noise: float = 0.0) -> Tensor:
    """From the discriminator's logits of real and of generated images; its targets spread by
    ``noise`` around 1 and 0.

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
    """From the discriminator's logits of generated images."""
    return cross_entropy(fake, torch.ones_like(fake))


@dataclass(frozen=True, repr=False)
class Gan(Attack):
    """A client that trains a generator of images against the models it is sent, and replies
    honestly."""

    key = "gan"

    client: int = 0
    """Who attacks."""
    epochs: int = 300
    """How often each visit goes through the attacker's images."""
    batch: int = 64
    lr: float = 2e-4
    betas: tuple[float, float] = (0.5, 0.999)
    """Of Adam, for both networks."""
    noise: float = 0.1
    """The standard deviation of the discriminator's targets."""
    z: int = 100
    """Random numbers that an image is made of."""
    width: int = 128
    """Channels of the generator's last hidden layer; each one before it has twice as many."""

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
        """To what the attacker is sent."""
        return True

    def check(self, attacked: AttackedRun) -> None:
        """There must be such a client, with images, and classes for the model to tell apart."""
        refuse_elsewhere(self, attacked)
        if self.client >= attacked.fed.population:
            raise SettingError(
                f"gan: client {self.client} attacks, but clients are numbered 0 to {attacked.fed.population - 1}. Name "
                "one of them."
            )
        if not (attacked.learner.task.classifies and attacked.learner.takes_images):
            raise SettingError(
                f"gan: images are recovered from a model that tells their classes, and {attacked.on} is learnt as "
                f"{attacked.learner.task} from inputs of shape {attacked.fed.shape}. Use images with a class each."
            )
        held = len(attacked.fed.data(self.client))
        if held < 2:
            raise SettingError(
                f"gan: client {self.client} holds {held} example, and its networks need two. Let another one attack."
            )

    def remark(self, attacked: AttackedRun) -> str:
        """What the attacker has to do."""
        held = len(attacked.fed.data(self.client))
        steps = self.epochs * len(list(self._batches(held)))
        return f"attack: client {self.client} trains a generator for {steps:,} steps at each of its visits"

    def fresh(self, attacked: AttackedRun) -> FlatModule:
        """The generator before the first visit."""
        learner = attacked.learner
        with torch.random.fork_rng(devices=[]):
            seed_modules(derive(attacked.seed, "attack/generator"), "cpu")
            module = generator(attacked.fed.shape, self.z, self.width)
        return FlatModule(module, dtype=learner.dtype, device=learner.device)

    def kept(self, attacked: AttackedRun, notes: AttackState) -> FlatModule:
        """The generator as the last visit has left it."""
        flat = self.fresh(attacked)
        if notes:
            flat.load(notes["params"])
            flat.buffers = notes["buffers"]
        return flat

    def observe(
        self, attacked: AttackedRun, notes: AttackState, client: int, broadcast: Broadcast
    ) -> None:
        """The attacker was sent a model: its generator is trained against it."""
        if client != self.client:
            return
        visits = int(notes["visits"]) if notes else 0
        flat, data = self.kept(attacked, notes), attacked.fed.data(client)
        with torch.random.fork_rng(devices=[]):
            seed_modules(derive(attacked.seed, "attack/visit", visits), attacked.learner.device)
            told = self._trained(
                attacked, flat.module, data, Model(broadcast.params, broadcast.buffers)
            )
        model = flat.model()
        notes |= {
            "params": model.params,
            "buffers": model.buffers,
            "losses": told,
            "visits": torch.tensor(visits + 1),
        }

    def _trained(
        self, attacked: AttackedRun, module: nn.Module, data: ClientData, sent: Model
    ) -> Tensor:
        """Train the generator; the mean losses of the last epoch, the discriminator's first."""
        learner = attacked.learner
        received = learner.copy()
        received.load(sent.params)
        received.buffers = sent.buffers
        last = nn.Linear(learner.outputs, 1).to(learner.device, learner.dtype)
        judge = nn.Sequential(received.module, last).train()
        module.train()
        adams = [ModuleAdam(one.parameters(), self.lr, self.betas) for one in (judge, module)]
        low, high = bounds(data, learner.dtype)
        seen: list[Tensor] = []
        for _ in range(self.epochs):
            seen = []
            for places in self._batches(len(data), torch.randperm(len(data))):
                real = data.batch(places, learner.dtype).inputs
                z = torch.randn(len(places), self.z, dtype=learner.dtype, device=learner.device)
                fake = placed(module(z), low, high)
                first = discriminator_loss(judge(real), judge(fake.detach()), self.noise)
                adams[0].step(first)
                second = generator_loss(judge(fake))
                adams[1].step(second)
                seen.append(torch.stack([first.detach(), second.detach()]))
        return torch.stack(seen).mean(0).double().cpu()

    def _batches(self, examples: int, order: Tensor | None = None) -> Iterator[Tensor]:
        """Places of an epoch, batch by batch; a single example left over is left out."""
        order = torch.arange(examples) if order is None else order
        return (places for places in order.split(self.batch) if len(places) > 1)

    def measure(self, notes: AttackState) -> dict[str, float]:
        """How often it was visited, and how well both networks do."""
        if not notes:
            return {"recovery_visits": 0}
        first, second = notes["losses"].tolist()
        return {
            "recovery_visits": int(notes["visits"]),
            "discriminator_loss": first,
            "generator_loss": second,
        }

    @torch.no_grad()
    def images(self, attacked: AttackedRun, notes: AttackState, count: int, seed: int) -> Tensor:
        """What the generator makes, as inputs of the model."""
        flat, learner = self.kept(attacked, notes), attacked.learner
        bound = bounds(attacked.fed.data(self.client), learner.dtype)
        drawn = torch.randn(
            count, self.z, generator=torch.Generator().manual_seed(seed), dtype=learner.dtype
        )
        parts = [flat.forward(part.to(learner.device)) for part in drawn.split(256)]
        return placed(torch.cat(parts), *bound)


def bounds(data: ClientData, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The least and the largest value of each channel in a client's images, as they are given to
    the model."""
    images = data.batch(torch.arange(len(data)), dtype).inputs
    return images.amin((0, 2, 3), keepdim=True), images.amax((0, 2, 3), keepdim=True)


def placed(made: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """What lies between -1 and 1, between two bounds."""
    return low + (made + 1) / 2 * (high - low)


gan = register("attack", "gan")(Gan)
