"""Label flipping: some clients swap the labels of pairs of classes in all their data.

    label_flip(L_S=0.3, L=0.5, pairs=[[0, 2], [3, 5]])
    label_flip(L_S=0.3, L=0.5, count=10, among="intra", draw="random")

With superclients (FedSeq), max(1, floor(L_S N_S)) of the N_S superclients are malicious, and in
each of them max(1, floor(L n)) of its n clients attack. Without superclients the same share of all
K clients attacks, max(1, floor(L_S L K)). Only clients that have a label to be swapped are chosen.
If there are fewer of them, all of them attack.

``draw="fixed"``: all attackers swap the same pairs. ``"random"``: each attacker has its own pairing
of the same labels, so that with one pair both are the same. Pairs that are not given are sampled
with the run's seed: `count` pairs of any classes (``among="any"``), each within one superclass
("intra"), or every label from another superclass ("extra"). Superclasses are those of CIFAR-100.
Test labels stay clean.

Besides the accuracy over all classes, the run reports the mean accuracy of the swapped classes as a
further test set `swapped`.
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
from fedflat.data.sets.cifar import FINE_TO_COARSE, Cifar100
from fedflat.errors import SettingError, choice, number
from fedflat.registry.specs import register
from fedflat.simulation.attacks.attack import Attack, AttackedRun, refuse_elsewhere, share

SUPERCLASSES = 20
SWAPPED = "swapped"
"""Name of the test set for the mean accuracy of the swapped classes."""


@dataclass(frozen=True, repr=False)
class LabelFlip(Attack):
    """A share of the superclients, and in them a share of the clients, swap labels in pairs."""

    key = "label_flip"

    L_S: float = 0.1
    """Share of superclients that are malicious."""
    L: float = 0.5
    """Share of attackers in each malicious superclient."""
    pairs: Pairs | None = None
    """Pairs of classes to swap. None: `count` pairs are sampled."""
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
                    "label_flip: among and count are for sampled pairs, but the pairs are given. "
                    "Leave one of them out."
                )

    def check(self, attacked: AttackedRun) -> None:
        """Require labels that can be swapped, and clients that have them."""
        refuse_elsewhere(self, attacked)
        if not isinstance(attacked.fed, PartitionedFederation):
            raise SettingError(
                "label_flip: labels are flipped in examples of a partition, but the clients of "
                f"{attacked.on} are generated on access. Use another data set, such as digits."
            )
        if not (
            attacked.learner.task.classifies
            and attacked.fed.classes
            and attacked.fed.train.has_classes
        ):
            raise SettingError(
                f"label_flip: classes are swapped, and {attacked.on} has none. "
                "Use data with classes."
            )
        if self.among != "any" and not (
            isinstance(attacked.on, Cifar100) and attacked.on.labels == "fine"
        ):
            raise SettingError(
                f"label_flip: among={self.among!r} needs superclasses; {attacked.on} has none. "
                "Use cifar100, or among='any'."
            )
        if not self.holders(attacked):
            raise SettingError(
                f"label_flip: no client has an example of {self._labels_text(attacked)}. "
                "Swap other classes."
            )

    def attackers(self, attacked: AttackedRun) -> dict[int, Swaps]:
        return {
            client: Swaps(self.pairs_of_client(attacked, client))
            for client in self.attacking_clients(attacked)
        }

    def attacking_clients(self, attacked: AttackedRun) -> list[int]:
        """Return the attackers. Those of a larger share contain those of a smaller one."""
        holders, seed, groups = self.holders(attacked), attacked.seed, attacked.superclients
        if not groups:
            order_of_clients = numpy_generator(seed, "attack/clients").permutation(sorted(holders))
            return sorted(
                order_of_clients[: share(attacked.fed.population, self.L_S, self.L)].tolist()
            )
        order = numpy_generator(seed, "attack/superclients").permutation(len(groups)).tolist()
        able = [place for place in order if holders & set(groups[place])]
        attackers: list[int] = []
        for place in able[: share(len(groups), self.L_S)]:
            own = numpy_generator(seed, "attack/clients", place).permutation(
                sorted(holders & set(groups[place]))
            )
            attackers += own[: share(len(groups[place]), self.L)].tolist()
        return sorted(attackers)

    def holders(self, attacked: AttackedRun) -> set[int]:
        """Return the clients that have a label to be swapped."""
        fed = attacked.fed
        assert isinstance(fed, PartitionedFederation)
        swapped = torch.isin(fed.train.labels.cpu(), torch.tensor(self.labels(attacked)))
        return {client for client, part in enumerate(fed.parts) if bool(swapped[part.cpu()].any())}

    def labels(self, attacked: AttackedRun) -> list[int]:
        """Return the classes that are swapped by any attacker."""
        return sorted(label for pair in self.chosen_pairs(attacked) for label in pair)

    def pairs_of_client(self, attacked: AttackedRun, client: int) -> Pairs:
        if self.draw == "fixed":
            return self.chosen_pairs(attacked)
        return _make_pairs(
            numpy_generator(attacked.seed, "attack/pairs", client).permutation(
                self.labels(attacked)
            )
        )

    def chosen_pairs(self, attacked: AttackedRun) -> Pairs:
        """Return the given pairs, or those sampled for the run."""
        classes, rng = attacked.fed.classes, numpy_generator(attacked.seed, "attack/labels")
        if self.pairs is not None:
            for pair in self.pairs:
                if max(pair) >= classes:
                    raise SettingError(
                        f"label_flip: pair {pair} has a class that does not exist "
                        f"(0 to {classes - 1})."
                    )
            return self.pairs
        most = {"any": classes // 2, "intra": SUPERCLASSES, "extra": SUPERCLASSES // 2}[self.among]
        if self.count > most:
            raise SettingError(
                f"label_flip: {self.count} pairs ({self.among}) cannot be sampled from {classes} "
                f"classes. Use at most {most}."
            )
        if self.among == "any":
            return _make_pairs(rng.permutation(classes)[: 2 * self.count])
        each = 2 if self.among == "intra" else 1
        chosen = rng.permutation(SUPERCLASSES)[: 2 * self.count // each]
        within = [np.flatnonzero(np.array(FINE_TO_COARSE) == one) for one in chosen]
        return _make_pairs(
            np.concatenate([rng.choice(fine, size=each, replace=False) for fine in within])
        )

    def remark(self, attacked: AttackedRun) -> str:
        """Return a sentence about the number of attackers and their labels."""
        attackers, groups = set(self.attacking_clients(attacked)), attacked.superclients
        bad = sum(bool(attackers & set(group)) for group in groups)
        where = f", in {bad} of {len(groups)} superclients" if groups else ""
        count = f"{len(attackers)} of {attacked.fed.population}"
        return f"attack: {count} clients swap {self._labels_text(attacked)}{where}"

    def _labels_text(self, attacked: AttackedRun) -> str:
        text = "labels " + ", ".join(f"{a} and {b}" for a, b in self.chosen_pairs(attacked)[:5])
        return text + (", ..." if len(self.chosen_pairs(attacked)) > 5 else "")

    def tests(self, attacked: AttackedRun) -> dict[str, dict[str, float]]:
        """Return the mean accuracy of the swapped classes on the test set, NaN if it has none."""
        test, swapped = attacked.fed.test, torch.tensor(self.labels(attacked))
        there = torch.isin(test.labels.cpu(), swapped)
        some = replace(test, index=test.index[there.to(test.index.device)])
        right, count = torch.zeros(attacked.fed.classes), torch.zeros(attacked.fed.classes)
        for batch, output in outputs(attacked.learner, some):
            count += torch.bincount(batch.targets.cpu(), minlength=len(count))
            right += torch.bincount(
                batch.targets[output.argmax(1) == batch.targets].cpu(), minlength=len(count)
            )
        score = float((right.double() / count)[count > 0].mean())
        return {SWAPPED: {attacked.learner.task.headline.name: score}}


def _make_pairs(labels: Sequence[int] | np.ndarray) -> Pairs:
    return tuple((int(a), int(b)) for a, b in np.reshape(labels, (-1, 2)))


label_flip = register("attack", "label_flip")(LabelFlip)
