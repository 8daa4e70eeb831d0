"""CFSI and LAB as pieces: which client gets whose style, what that costs and discloses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fedflat as ff
from fedflat.client.describers.image_styles import Colours, Spectra, windows_of
from fedflat.client.local import LocalTraining
from fedflat.client.styles import Cfsi, Lab, Restyle
from fedflat.data.examples import ClientData
from fedflat.data.sets.in_memory import clients_of
from fedflat.data.styles import amplitudes, halves, lab_bytes, lab_to_rgb
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import remarks
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler

Pair = tuple[Tensor, Tensor]


def pictures(seed: int, count: int = 4) -> Pair:
    rng = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (count, 3, 8, 12), generator=rng, dtype=torch.uint8)
    return x, torch.arange(count) % 2


def experiment(method: str, data: Sequence[Pair], rounds: int = 2) -> Experiment:
    def linear() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 12, 2))

    return Experiment(
        method=parse(method, "method"),
        on=clients_of(list(data), test=data[0], classes=2),
        model=linear,
        rounds=rounds,
        local=LocalTraining(batch_size=3, lr=0.1),
        sampler=ClientSampler(clients=len(data)),
        dtype="float64",
    )


def outcome(method: str, data: Sequence[Pair], **more: Any) -> tuple[Tensor, RunState]:
    class RecordingRunFolder(RunFolder):
        def checkpoint(self, run: RunState, *, force: bool = False) -> None:
            self.run = run

    run_folder = RecordingRunFolder()
    train(experiment(method, data, **more), run_folder=run_folder)
    return run_folder.run.model.params, run_folder.run


DATA = [pictures(seed, 4 + seed) for seed in range(3)]


def test_no_way_to_the_other_style_is_fedavg() -> None:
    still, plain = outcome("fedavg + cfsi(lam=0.0)", DATA)[0], outcome("fedavg", DATA)[0]
    assert torch.equal(still, plain)
    assert not torch.equal(outcome("fedavg + cfsi(lam=0.5)", DATA)[0], plain)


def test_the_own_style_is_the_identity() -> None:
    """All hold copies of one picture: every style of the bank is its own. LAB's eight bits are all
    that is lost."""
    x, _ = pictures(0, 1)
    alike = [(x.repeat(n, 1, 1, 1), torch.arange(n) % 2) for n in (3, 4)]
    plain = outcome("fedavg", alike)[0]
    assert torch.equal(outcome("fedavg + cfsi(lam=1.0, share=0.3)", alike)[0], plain)
    coarse = lab_to_rgb(lab_bytes(x)).round().to(torch.uint8)
    mixed = [(x.repeat(n, 1, 1, 1), y) for (_, y), n in zip(alike, (3, 4), strict=True)]
    for images, _ in mixed:
        images[::2] = coarse
    assert torch.equal(outcome("fedavg + lab()", alike)[0], outcome("fedavg", mixed)[0])


class SharedContext:
    """Stands for a request of client 0."""

    client = 0

    def __init__(self, bank: Tensor) -> None:
        self.shared, self.rng = {"bank": bank}, torch.Generator().manual_seed(0)


@pytest.mark.parametrize("piece", [Cfsi(share=0.2), Lab()], ids=repr)
def test_every_second_image_and_always_the_same(piece: Restyle) -> None:
    describer = piece.describers[0]
    assert isinstance(describer, Spectra | Colours)
    rows = [
        torch.cat([torch.full((len(x), 1), k), describer.rows(x)], 1)
        for k, (x, _) in enumerate(DATA)
    ]
    data = experiment("fedavg", DATA).on.open(0).data(0)  # type: ignore[union-attr]
    changed = piece.data(SharedContext(torch.cat(rows).float()), data)  # type: ignore[arg-type]
    places = torch.tensor([3, 0, 1, 2])
    before = data.batch(places, torch.float64)
    for _ in range(3):
        after = changed.batch(places, torch.float64, torch.Generator())
        differs = (after.inputs != before.inputs).flatten(1).any(1)
        assert differs.tolist() == [False, True, False, True]
    assert torch.equal(
        changed.batch(places, torch.float64).inputs, before.inputs
    )  # unchanged where no client trains
    assert torch.equal(data.batch(places, torch.float64).inputs, before.inputs)


def test_half_a_window_is_all_of_it() -> None:
    x, half = DATA[0][0], halves(8, 12, 0.3)
    sent = Spectra(0.3).rows(x)
    assert sent.shape == (4, 3 * ((5 * 7 + 1) // 2))
    torch.testing.assert_close(windows_of(sent, 3, half), amplitudes(x.double(), half))


@pytest.mark.parametrize(("text", "numbers"), [("cfsi(share=0.3)", 3 * 18), ("lab()", 6)])
def test_the_bank_is_counted(text: str, numbers: int) -> None:
    """Every client sends a row for each image, and is sent the rows of all."""
    _, run = outcome(f"fedavg + {text}", DATA, rounds=1)
    _, plain = outcome("fedavg", DATA, rounds=1)
    images, bytes_each = sum(len(x) for x, _ in DATA), 4 * (1 + numbers)
    assert run.ledger.up - plain.ledger.up == images * bytes_each
    assert run.ledger.down - plain.ledger.down == len(DATA) * images * bytes_each


def test_its_text_is_printed_again() -> None:
    printed = remarks(prepare(experiment("fedavg + lab", DATA)))
    [output] = [text for text in printed if "before the first round" in text]
    assert (
        "every client learn the mean and the standard deviation of the colours of each training image"
        in output
    )


def looks(data: ClientData) -> set[int]:
    assert data.domains is not None
    return set(data.domains.looks)


def test_the_own_town_and_weather_are_left_out_whatever_the_view() -> None:
    """A bank whose every style is a number that names its client: which ones are drawn?"""
    on = ff.street(
        towns=2,
        weather="sun,rain",
        view="car,bus",
        clients=8,
        examples=2,
        width=32,
        height=16,
        seed=1,
    )
    fed = on.open(0)
    own = looks(fed.data(0))
    same = [client for client in range(8) if looks(fed.data(client)) == own]
    assert [fed.domain(client)[:2] for client in same] == [("town0", "sun")] * 2
    rows = [
        torch.tensor([[*looks(fed.data(client)), client]] * 2, dtype=torch.float32)
        for client in range(8)
    ]
    drawn: list[float] = []

    class Spy(Lab):
        def restyle(self, images: Tensor, styles: Tensor, rng: torch.Generator) -> Tensor:
            drawn.extend(styles.flatten().tolist())
            return images

    for exclude, expected in (("domain", set(range(8)) - set(same)), ("none", set(range(8)))):
        data = Spy(exclude=exclude).data(SharedContext(torch.cat(rows)), fed.data(0))  # type: ignore[arg-type]
        drawn.clear()
        for _ in range(200):
            data.batch(torch.tensor([0, 1]), torch.float32, torch.Generator())
        assert set(drawn) == expected


def test_what_has_no_style_is_refused() -> None:
    floats = [(x.float(), y) for x, y in DATA]
    with pytest.raises(
        SettingError, match=r"pictures in bytes, from 0 to 255, but these data have torch.float32"
    ):
        prepare(experiment("fedavg + cfsi", floats))
    setup, grey = (
        prepare(experiment("fedavg", DATA)),
        experiment("fedavg", [(x[:, :1], y) for x, y in DATA]),
    )
    with pytest.raises(
        SettingError, match=r"pictures of three colours in bytes.*shape \(1, 8, 12\)"
    ):
        Colours().check(grey.on.open(0), setup.job.learner, None)


def test_styles_of_another_domain_need_one() -> None:
    with pytest.raises(SettingError, match=r'all 4 images are of one domain.*exclude="none"'):
        train(experiment("fedavg + lab", DATA[:1]))
    with pytest.raises(SettingError, match=r'all 15 images are of one domain.*exclude="none"'):
        train(experiment("centralised + lab", DATA))
    train(experiment("fedavg + lab(exclude='none')", DATA[:1]))
    with pytest.raises(SettingError, match="cfsi: exclude must be"):
        parse("cfsi(exclude='town')", "method")
    with pytest.raises(SettingError, match="cfsi: lam must be"):
        parse("cfsi(lam=2)", "method")
