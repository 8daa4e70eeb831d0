"""What a client has recovered from the models it was sent: pictures, and how far they are from real
ones.

The measure is the Fréchet distance between features of all real training images and of generated
ones; the higher, the safer. Beside it stand that of the test images, which is as near as strangers
come, and that of a generator that has learnt nothing.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import torch
from torch import Tensor

from fedflat.analysis.analyses import AnalysisResult, Tell, once
from fedflat.analysis.analysis_store import Result
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.core.seeds import derive, torch_generator
from fedflat.data.examples import ClientData
from fedflat.data.files.png import png
from fedflat.errors import SettingError
from fedflat.execution.client_pool import threads
from fedflat.simulation.attacks.attack import ATTACK, AttackState
from fedflat.simulation.attacks.feature_network import SAID, STEPS, FeatureNetwork, trained_on
from fedflat.simulation.attacks.frechet import Moments, frechet, moments
from fedflat.simulation.attacks.gan import Gan, bounds

MADE = 10_000
"""Images that are generated, at most as many as there are real ones."""
SHOWN, ACROSS = 32, 8
"""Pictures, and how many of them stand side by side."""
_JUDGES: dict[str, FeatureNetwork] = {}
"""Of this process, by the data they were trained on: several runs are looked at with one."""


def analyse_recovery(loaded: LoadedRun, on_progress: Tell) -> AnalysisResult:
    """The distance of what was recovered, and pictures of it."""
    attack, notes = _kept(loaded)
    settings = {"client": attack.client, "steps": STEPS, "made": MADE}
    settings |= {} if loaded.standing is None else {"round": loaded.standing}

    def work() -> Result:
        with threads(1):
            return _recovered(loaded, attack, notes, on_progress)

    return once(loaded.shelf, "recovery", settings, work)


def _kept(loaded: LoadedRun) -> tuple[Gan, AttackState]:
    attack = loaded.experiment.attack
    if not isinstance(attack, Gan):
        raise SettingError(
            f"{loaded.folder}: nobody has tried to recover images in this run. Make it with --attack 'gan(client=0)'."
        )
    notes = loaded.state.averages.get(ATTACK, {})
    if not notes:
        raise SettingError(
            f"{loaded.folder}: client {attack.client}, who attacks, was not visited in {loaded.state.round} rounds. "
            "Run longer, ask more clients a round, or let another one attack."
        )
    return attack, notes


def _recovered(loaded: LoadedRun, attack: Gan, notes: AttackState, on_progress: Tell) -> Result:
    fed, attacked = loaded.ready.fed, loaded.ready.attacked_run
    everybody = fed.pooled().data(0)
    digest = loaded.facts["origin"].get("data", str(loaded.folder))
    if digest not in _JUDGES:
        _JUDGES[digest] = trained_on(
            everybody,
            fed.shape,
            fed.classes,
            STEPS,
            lambda step: on_progress(step, 2 * STEPS, "a network to compare by"),
        )
    judge = _JUDGES[digest]
    real = _moments(judge, _batches(everybody))
    on_progress(3, 4, "real images")
    count, seed = min(MADE, len(everybody)), derive(loaded.experiment.seed, "recovery")
    made, none = (attack.images(attacked, some, count, seed) for some in (notes, {}))
    right = torch.cat([judge.guess(x) == y.cpu() for x, y in _labelled(fed.test)])
    bound = bounds(fed.data(attack.client), torch.float32)
    some = torch.randperm(len(everybody), generator=torch_generator(0, "recovery"))[:SHOWN]
    shown = everybody.batch(some, torch.float32).inputs
    return {
        "client": attack.client,
        "visits": int(notes["visits"]),
        "features": SAID,
        "real": len(everybody),
        "made": count,
        "accuracy": float(right.double().mean()),
        "distance": frechet(real, _moments(judge, made.split(256))),
        "test": frechet(real, _moments(judge, _batches(fed.test))),
        "untrained": frechet(real, _moments(judge, none.split(256))),
        "recovered": _sheet(made[:SHOWN], *bound),
        "originals": _sheet(shown, *bound),
    }


def _labelled(data: ClientData) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in data.batches(torch.arange(len(data)).split(256), torch.float32):
        yield batch.inputs, batch.targets


def _batches(data: ClientData) -> Iterator[Tensor]:
    return (inputs for inputs, _ in _labelled(data))


def _moments(judge: FeatureNetwork, images: Iterator[Tensor] | tuple[Tensor, ...]) -> Moments:
    return moments(torch.cat([judge.of(some) for some in images]))


def _sheet(images: Tensor, low: Tensor, high: Tensor) -> str:
    """Images side by side with a pixel between them, as a PNG file in letters."""
    levels = (
        ((images.float() - low) / (high - low).clamp(min=1e-12))
        .clamp(0, 1)
        .mul(255)
        .round()
        .byte()
        .cpu()
    )
    _, channels, tall, wide = levels.shape
    rows = -(-len(levels) // ACROSS)
    sheet = torch.full(
        (channels, rows * (tall + 1) - 1, ACROSS * (wide + 1) - 1), 255, dtype=torch.uint8
    )
    for place, image in enumerate(levels):
        top, left = place // ACROSS * (tall + 1), place % ACROSS * (wide + 1)
        sheet[:, top : top + tall, left : left + wide] = image
    pixels = sheet.permute(1, 2, 0).contiguous().numpy()
    return b64encode(png(pixels if channels == 3 else pixels[..., 0])).decode()
