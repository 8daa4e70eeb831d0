"""Images that an attacking client recovered from the models it was sent, and their distance.

The measure is the Fréchet distance between features of all real training images and of generated
ones. Higher is safer. For comparison there are the distance of the test images and that of an
untrained generator.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

import torch
from torch import Tensor

from fedflat.analysis.analysis import AnalysisJob, OnProgress, Result, Settings
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.core.seeds import derive, torch_generator
from fedflat.data.examples import ClientData
from fedflat.data.files.pictures import png
from fedflat.errors import SettingError
from fedflat.execution.client_pool import threads
from fedflat.experiments.prepare import attacked_run
from fedflat.simulation.attacks.attack import ATTACK, AttackState
from fedflat.simulation.attacks.feature_network import (
    DESCRIPTION,
    STEPS,
    FeatureNetwork,
    Moments,
    frechet,
    moments,
    train_feature_network,
)
from fedflat.simulation.attacks.gan import Gan, bounds

MAX_GENERATED = 10_000
"""Number of generated images, but at most as many as there are real ones."""
SHOWN, ACROSS = 32, 8
"""Number of images in a sheet, and number of them per row."""
_NETWORKS: dict[str, FeatureNetwork] = {}
"""Feature networks of this process, by the digest of the data they were trained on."""


def recovery_settings(loaded: LoadedRun) -> Settings:
    """Return the attacker and the numbers of the measurement. Refuse runs without recovery."""
    attack, _ = _attack_state(loaded)
    return {"client": attack.client, "steps": STEPS, "made": MAX_GENERATED}


def compute_recovery(job: AnalysisJob) -> Result:
    """Return the distance of the recovered images from real ones, and some of them."""
    with threads(1):
        return _compute(job.loaded, *_attack_state(job.loaded), job.on_progress)


def _attack_state(loaded: LoadedRun) -> tuple[Gan, AttackState]:
    attack = loaded.experiment.attack
    if not isinstance(attack, Gan):
        raise SettingError(
            f"{loaded.folder}: no client recovers images in this run. "
            "Run it with --attack 'gan(client=0)'."
        )
    notes = loaded.state.averages.get(ATTACK, {})
    if not notes:
        raise SettingError(
            f"{loaded.folder}: the attacking client {attack.client} was not selected in "
            f"{loaded.state.round} rounds. Run longer, select more clients per round, or choose "
            "another attacker."
        )
    return attack, notes


def _compute(loaded: LoadedRun, attack: Gan, notes: AttackState, on_progress: OnProgress) -> Result:
    fed, setup = loaded.setup.fed, loaded.setup
    attacked = attacked_run(setup.exp, fed, setup.job.learner, setup.server.population)
    training = fed.pooled().data(0)
    digest = loaded.record.origin.data or str(loaded.folder)
    if digest not in _NETWORKS:
        _NETWORKS[digest] = train_feature_network(
            training,
            fed.shape,
            fed.classes,
            STEPS,
            lambda step: on_progress(step, 2 * STEPS, "feature network"),
        )
    network = _NETWORKS[digest]
    real = _moments(network, _batches(training))
    on_progress(3, 4, "real images")
    count, seed = min(MAX_GENERATED, len(training)), derive(loaded.experiment.seed, "recovery")
    generated, untrained = (attack.images(attacked, some, count, seed) for some in (notes, {}))
    right = torch.cat([network.guess(x) == y.cpu() for x, y in _labelled(fed.test)])
    bound = bounds(fed.data(attack.client), torch.float32)
    some = torch.randperm(len(training), generator=torch_generator(0, "recovery"))[:SHOWN]
    shown = training.batch(some, torch.float32).inputs
    return {
        "client": attack.client,
        "requests": int(notes["requests"]),
        "features": DESCRIPTION,
        "real": len(training),
        "made": count,
        "accuracy": float(right.double().mean()),
        "distance": frechet(real, _moments(network, generated.split(256))),
        "test": frechet(real, _moments(network, _batches(fed.test))),
        "untrained": frechet(real, _moments(network, untrained.split(256))),
        "recovered": _sheet(generated[:SHOWN], *bound),
        "originals": _sheet(shown, *bound),
    }


def _labelled(data: ClientData) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in data.batches(torch.arange(len(data)).split(256), torch.float32):
        yield batch.inputs, batch.targets


def _batches(data: ClientData) -> Iterator[Tensor]:
    return (inputs for inputs, _ in _labelled(data))


def _moments(network: FeatureNetwork, images: Iterator[Tensor] | tuple[Tensor, ...]) -> Moments:
    return moments(torch.cat([network.of(some) for some in images]))


def _sheet(images: Tensor, low: Tensor, high: Tensor) -> str:
    """Return images side by side with a pixel between them, as a PNG file in base64."""
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
