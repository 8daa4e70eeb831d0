"""What a client has recovered from the models it was sent: pictures, and how far they are from real ones.

The measure is the Fréchet distance between features of all real training images and of generated ones; the higher, the
safer. Beside it stand that of the test images, which is as near as strangers come, and that of a generator that has
learnt nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import torch
from torch import Tensor

from fedflat.analyse.analyses import Found, Tell, once
from fedflat.analyse.shelf import Result
from fedflat.analyse.subject import Subject
from fedflat.attacks.attack import ATTACK, Notes
from fedflat.attacks.frechet import Moments, frechet, moments
from fedflat.attacks.gan import Gan, bounds
from fedflat.attacks.judge import SAID, STEPS, Judge, trained_on
from fedflat.data.examples import ClientData
from fedflat.data.files.png import png
from fedflat.engine.seeds import derive, torch_generator
from fedflat.errors import SettingError
from fedflat.executors.crew import threads

MADE = 10_000
"""Images that are generated, at most as many as there are real ones."""
SHOWN, ACROSS = 32, 8
"""Pictures, and how many of them stand side by side."""
_JUDGES: dict[str, Judge] = {}
"""Of this process, by the data they were trained on: several runs are looked at with one."""


def see_recovery(subject: Subject, tell: Tell) -> Found:
    """The distance of what was recovered, and pictures of it."""
    attack, notes = _kept(subject)
    settings = {"client": attack.client, "steps": STEPS, "made": MADE}
    settings |= {} if subject.standing is None else {"round": subject.standing}

    def work() -> Result:
        with threads(1):
            return _recovered(subject, attack, notes, tell)

    return once(subject.shelf, "recovery", settings, work)


def _kept(subject: Subject) -> tuple[Gan, Notes]:
    attack = subject.experiment.attack
    if not isinstance(attack, Gan):
        raise SettingError(
            f"{subject.folder}: nobody has tried to recover images in this run. Make it with --attack 'gan(client=0)'."
        )
    notes = subject.state.shadows.get(ATTACK, {})
    if not notes:
        raise SettingError(
            f"{subject.folder}: client {attack.client}, who attacks, was not visited in {subject.state.round} rounds. "
            "Run longer, ask more clients a round, or let another one attack."
        )
    return attack, notes


def _recovered(subject: Subject, attack: Gan, notes: Notes, tell: Tell) -> Result:
    fed, victim = subject.ready.fed, subject.ready.victim
    everybody = fed.pooled().data(0)
    digest = subject.facts["origin"].get("data", str(subject.folder))
    if digest not in _JUDGES:
        _JUDGES[digest] = trained_on(
            everybody, fed.shape, fed.classes, STEPS, lambda step: tell(step, 2 * STEPS, "a network to compare by")
        )
    judge = _JUDGES[digest]
    real = _moments(judge, _batches(everybody))
    tell(3, 4, "real images")
    count, seed = min(MADE, len(everybody)), derive(subject.experiment.seed, "recovery")
    made, none = (attack.images(victim, some, count, seed) for some in (notes, {}))
    right = torch.cat([judge.guess(x) == y.cpu() for x, y in _labelled(fed.test)])
    bound = bounds(fed.data(attack.client), torch.float32)
    some = torch.randperm(len(everybody), generator=torch_generator(0, "recovery"))[:SHOWN]
    shown = everybody.batch(some, torch.float32).inputs
    return {
        "client": attack.client, "visits": int(notes["visits"]), "features": SAID, "real": len(everybody),
        "made": count, "accuracy": float(right.double().mean()),
        "distance": frechet(real, _moments(judge, made.split(256))),
        "test": frechet(real, _moments(judge, _batches(fed.test))),
        "untrained": frechet(real, _moments(judge, none.split(256))),
        "recovered": _sheet(made[:SHOWN], *bound), "originals": _sheet(shown, *bound),
    }  # fmt: skip


def _labelled(data: ClientData) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in data.batches(torch.arange(len(data)).split(256), torch.float32):
        yield batch.inputs, batch.targets


def _batches(data: ClientData) -> Iterator[Tensor]:
    return (inputs for inputs, _ in _labelled(data))


def _moments(judge: Judge, images: Iterator[Tensor] | tuple[Tensor, ...]) -> Moments:
    return moments(torch.cat([judge.of(some) for some in images]))


def _sheet(images: Tensor, low: Tensor, high: Tensor) -> str:
    """Images side by side with a pixel between them, as a PNG file in letters."""
    levels = ((images.float() - low) / (high - low).clamp(min=1e-12)).clamp(0, 1).mul(255).round().byte().cpu()
    _, channels, tall, wide = levels.shape
    rows = -(-len(levels) // ACROSS)
    sheet = torch.full((channels, rows * (tall + 1) - 1, ACROSS * (wide + 1) - 1), 255, dtype=torch.uint8)
    for place, image in enumerate(levels):
        top, left = place // ACROSS * (tall + 1), place % ACROSS * (wide + 1)
        sheet[:, top : top + tall, left : left + wide] = image
    pixels = sheet.permute(1, 2, 0).contiguous().numpy()
    return b64encode(png(pixels if channels == 3 else pixels[..., 0])).decode()
