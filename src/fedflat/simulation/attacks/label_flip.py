"""Label flipping: some clients swap the labels of pairs of classes in all their data, for the whole
run.

    label_flip(L_S=0.3, L=0.5, pairs=[[0, 2], [3, 5]])
    label_flip(L_S=0.3, L=0.5, count=10, among="intra", draw="random")

In chains of superclients that stay together (FedSeq), max(1, floor(L_S N_S)) of the N_S
superclients are malicious, and in each of them max(1, floor(L n)) of its n clients attack.
Elsewhere there are no superclients, and as large a share of all K clients attacks, max(1, floor(L_S
L K)). Only clients that hold a label to be swapped are drawn; where there are fewer, all of them
attack.

``draw="fixed"``: all attackers swap the same pairs. ``"random"``: each has its own pairing of the
same labels, whatever the pairs were, so that with one pair both are the same. Pairs that are not
given are drawn by the run's seed: ``count`` of them, from anywhere (``among="any"``), each within
one superclass ("intra"), or every label from another superclass ("extra"); superclasses are
CIFAR-100's. Test labels stay clean.

Beside the accuracy over all classes a run then tells, as of a further test set, that of
``swapped``: the mean accuracy of the classes that are swapped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedflat.client.attacker import Pairs, Swaps, pairs_of
from fedflat.client.evaluate import outputs
from fedflat.core.seeds import numpy_generator
from fedflat.data.federation import PartitionedFederation
from fedflat.data.sets.cifar100 import FINE_TO_COARSE, Cifar100
from fedflat.errors import SettingError, choice, number
from fedflat.registry.specs import register
from fedflat.simulation.attacks.attack import Attack, AttackedRun, refuse_elsewhere, share

SUPERCLASSES = 20
SWAPPED = "swapped"
"""What the mean accuracy of the swapped classes is called, as if they were a further test set."""


@dataclass(frozen=True, repr=False)
class LabelFlip(Attack):
    """A share of the superclients, and in them a share of the clients, swap labels in pairs."""

    key = "label_flip"

    L_S: float = 0.1
    """The share of superclients that are malicious."""
    L: float = 0.5
    """The share of attackers in each of them."""
    pairs: Pairs | None = None
    """The classes to swap; None: ``count`` pairs are drawn."""
    count: int = 1
    draw: str = "fixed"
    among: str = "any"

    def __post_init__(self) -> None:
        for name in ("L_S", "L"):
            number("label_flip", name, getattr(self, name), low=0, high=1, open_low=True)
        number("label_flip", "count", self.count, low=1, whole=True)
        choice("label_flip", "draw", self.draw, ["fixed", "random"])
        choice("label_flip", "among", self.among, ["any", "intra", "extra"])
        if self.pairs is not None:
            object.__setattr__(self, "pairs", pairs_of("label_flip", self.pairs))
            if self.among != "any" or self.count != 1:
                raise SettingError(
                    "label_flip: among and count say how pairs are drawn, but the pairs are given. Leave one of them "
                    "out."
                )

    def check(self, attacked: AttackedRun) -> None:
        """Labels must be there to be swapped, and somebody must hold them."""
        refuse_elsewhere(self, attacked)
        if not isinstance(attacked.fed, PartitionedFederation):
            raise SettingError(
                f"label_flip: labels are flipped in examples that are dealt out, but the clients of {attacked.on} are "
                "made when asked for. Use another data set, such as digits."
            )
        if not (
            attacked.learner.task.classifies
            and attacked.fed.classes
            and attacked.fed.train.labelled
        ):
            raise SettingError(
                f"label_flip: classes are swapped, and {attacked.on} has none. Use data with classes."
            )
        if self.among != "any" and not (
            isinstance(attacked.on, Cifar100) and attacked.on.labels == "fine"
        ):
            raise SettingError(
                f"label_flip: among={self.among!r} needs superclasses; {attacked.on} has none. Use cifar100, or "
                "among='any'."
            )
        if not self.holders(attacked):
            raise SettingError(
                f"label_flip: no client holds an example of {self._named(attacked)}. Swap other classes."
            )

    def attackers(self, attacked: AttackedRun) -> dict[int, Swaps]:
        """Who lies, with the pairs of each."""
        return {client: Swaps(self.pairing(attacked, client)) for client in self.liars(attacked)}

    def liars(self, attacked: AttackedRun) -> list[int]:
        """The attackers: drawn in order, so that a larger share holds those of a smaller one."""
        holders, seed, groups = self.holders(attacked), attacked.seed, attacked.superclients
        if not groups:
            everybody = numpy_generator(seed, "attack/clients").permutation(sorted(holders))
            return sorted(everybody[: share(attacked.fed.population, self.L_S, self.L)].tolist())
        order = numpy_generator(seed, "attack/superclients").permutation(len(groups)).tolist()
        able = [place for place in order if holders & set(groups[place])]
        found: list[int] = []
        for place in able[: share(len(groups), self.L_S)]:
            own = numpy_generator(seed, "attack/clients", place).permutation(
                sorted(holders & set(groups[place]))
            )
            found += own[: share(len(groups[place]), self.L)].tolist()
        return sorted(found)

    def holders(self, attacked: AttackedRun) -> set[int]:
        """The clients that hold a label to be swapped."""
        fed = attacked.fed
        assert isinstance(fed, PartitionedFederation)
        lying = torch.isin(fed.train.labels.cpu(), torch.tensor(self.labels(attacked)))
        return {client for client, part in enumerate(fed.parts) if bool(lying[part.cpu()].any())}

    def labels(self, attacked: AttackedRun) -> list[int]:
        """The classes that are swapped by anybody."""
        return sorted(label for pair in self.drawn(attacked) for label in pair)

    def pairing(self, attacked: AttackedRun, client: int) -> Pairs:
        """The pairs that ``client`` swaps."""
        if self.draw == "fixed":
            return self.drawn(attacked)
        return _paired(
            numpy_generator(attacked.seed, "attack/pairs", client).permutation(
                self.labels(attacked)
            )
        )

    def drawn(self, attacked: AttackedRun) -> Pairs:
        """The pairs that were given, or those drawn for the run."""
        classes, rng = attacked.fed.classes, numpy_generator(attacked.seed, "attack/labels")
        if self.pairs is not None:
            for pair in self.pairs:
                if max(pair) >= classes:
                    raise SettingError(
                        f"label_flip: pair {pair} names a class that is not there (0 to {classes - 1})."
                    )
            return self.pairs
        most = {"any": classes // 2, "intra": SUPERCLASSES, "extra": SUPERCLASSES // 2}[self.among]
        if self.count > most:
            raise SettingError(
                f"label_flip: {self.count} pairs ({self.among}) cannot be drawn from {classes} classes, at most {most}."
            )
        if self.among == "any":
            return _paired(rng.permutation(classes)[: 2 * self.count])
        each = 2 if self.among == "intra" else 1
        chosen = rng.permutation(SUPERCLASSES)[: 2 * self.count // each]
        within = [np.flatnonzero(np.array(FINE_TO_COARSE) == one) for one in chosen]
        return _paired(
            np.concatenate([rng.choice(fine, size=each, replace=False) for fine in within])
        )

    def remark(self, attacked: AttackedRun) -> str:
        """How many attack, and what they swap."""
        liars, groups = set(self.liars(attacked)), attacked.superclients
        bad = sum(bool(liars & set(group)) for group in groups)
        where = f", in {bad} of {len(groups)} superclients" if groups else ""
        return f"attack: {len(liars)} of {attacked.fed.population} clients swap {self._named(attacked)}{where}"

    def _named(self, attacked: AttackedRun) -> str:
        said = "labels " + ", ".join(f"{a} and {b}" for a, b in self.drawn(attacked)[:5])
        return said + (", ..." if len(self.drawn(attacked)) > 5 else "")

    def tests(self, attacked: AttackedRun) -> dict[str, dict[str, float]]:
        """The mean accuracy of the swapped classes on the test set; NaN if it has none of them."""
        test, wanted = attacked.fed.test, torch.tensor(self.labels(attacked))
        there = torch.isin(test.labels.cpu(), wanted)
        some = replace(test, index=test.index[there.to(test.index.device)])
        right, count = torch.zeros(attacked.fed.classes), torch.zeros(attacked.fed.classes)
        for batch, output in outputs(attacked.learner, some):
            count += torch.bincount(batch.targets.cpu(), minlength=len(count))
            right += torch.bincount(
                batch.targets[output.argmax(1) == batch.targets].cpu(), minlength=len(count)
            )
        score = float((right.double() / count)[count > 0].mean())
        return {SWAPPED: {attacked.learner.task.headline.name: score}}


def _paired(labels: Sequence[int] | np.ndarray) -> Pairs:
    return tuple((int(a), int(b)) for a, b in np.reshape(labels, (-1, 2)))


label_flip = register("attack", "label_flip")(LabelFlip)
