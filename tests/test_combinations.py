"""Every base method with probes, MAN, model averages and server momentum: it trains, or the error
says why not."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch

import combinations
from combinations import ADDED, BASES, RECENT, matrix, method_of, ready, short, trains
from fedflat.client.piece import ModelInfo
from fedflat.composition.method import Method
from fedflat.core.stage import Stage
from fedflat.errors import SettingError
from fedflat.methods.pieces import man
from fedflat.registry.specs import registered

PAGE = Path(__file__).parents[1] / "docs" / "combinations.md"
PROBES = ["", "sam", "asam", "fsa"]
AVERAGES = ["", "swa", "wima"]


def combined(base: str, *names: str) -> str:
    return " + ".join([BASES[base], *(ADDED[name] for name in names if name)])


def refused(base: str, probe: str, momentum: str) -> str | None:
    """The addition that must be refused: a second probe, or a second momentum of the server."""
    alone = method_of(BASES[base])
    if probe == "fsa" and base == "FedSpeed":  # FSA's radii take the place of FedSpeed's
        return None
    if probe and any(piece.stage is Stage.PROBE for piece in alone.client):
        return probe
    return momentum if base == "FedAvgM" and momentum else None


def keys(method: Method) -> set[str]:
    return {piece.key for piece in (*method.client, *method.server)}


def refusal(text: str) -> str | None:
    try:
        method_of(text)
    except SettingError as error:
        return str(error)
    return None


def test_every_method_with_a_paper_of_its_own_is_a_base() -> None:
    methods = {text.partition("(")[0] for text in BASES.values()}
    ours = {
        entry.name
        for entry in registered("method")
        if entry.make.__module__.startswith("fedflat.methods.")
        and entry.make.__module__
        not in ("fedflat.methods.fedseq", "fedflat.methods.fedseq", "fedflat.methods.fedbuff")
    }
    whole = {
        name
        for name in ours
        if name.startswith(("fed", "naive", "mime", "mofed", "scaffold", "adabest", "silo"))
    }
    evaluated_otherwise = {"fedavg_ft", "fedvc"}
    pieces = {"moon", "local_adam", "local_adamw"}  # FedAvg with them is a base too
    assert methods == whole - evaluated_otherwise | pieces


@pytest.mark.parametrize("base", BASES)
def test_what_is_refused(base: str) -> None:
    """The sentence names a piece of the base and the addition; whatever else is added, and in any
    order."""
    for probe, with_man, average, momentum in product(
        PROBES, ("", "man"), AVERAGES, ("", "server_momentum")
    ):
        added = [name for name in (with_man, average, probe, momentum) if name]
        texts = (
            combined(base, *added),
            " + ".join([*(ADDED[name] for name in reversed(added)), BASES[base]]),
        )
        guilty = refused(base, probe, momentum)
        for text in texts:
            if guilty is None:
                assert method_of(text)
                continue
            sentence = refusal(text)
            assert sentence is not None, text
            assert short(sentence) in ("two probes", "is in it")
            assert sentence.endswith(".")
            assert f"{guilty}(" in sentence
            assert any(f"{key}(" in sentence for key in keys(method_of(BASES[base])))


def accepted(base: str, probe: str) -> list[tuple[str, str]]:
    """MAN and server momentum: both, then one of them, and none; without what is refused."""
    if refused(base, probe, ""):
        return []
    choices = product(("man", ""), ("server_momentum", ""))
    return [(man, momentum) for man, momentum in choices if not refused(base, probe, momentum)]


def assert_choices_train(base: str, probe: str, choices: slice) -> None:
    """Averages of models are never fed back, so each choice meets one of them in turn."""
    turn = list(BASES).index(base) + PROBES.index(probe)
    for i, choice in list(enumerate(accepted(base, probe)))[choices]:
        text = combined(base, probe, *choice, AVERAGES[(turn + i) % 3])
        assert trains(method_of(text)), text


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("base", BASES)
def test_what_trains(base: str, probe: str) -> None:
    """Every choice of the others; of recent bases, that with everything."""
    assert_choices_train(base, probe, slice(1 if base in RECENT else None))


@pytest.mark.slow
@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("base", RECENT)
def test_the_other_choices_train(base: str, probe: str) -> None:
    assert_choices_train(base, probe, slice(1, None))


@pytest.mark.parametrize("base", BASES)
def test_two_bases_stand_together_or_say_why_not(base: str) -> None:
    for other in BASES:
        text = f"{BASES[base]} + {BASES[other]}"
        why = refusal(text)
        if why is not None:
            assert why.endswith(".")
            assert short(why)
            continue
        alone = method_of(BASES[base]), method_of(BASES[other])
        joined = {"blend"} if {base, other} == {"FedSpeed", "FedFSA"} else set()
        assert keys(method_of(text)) == (keys(alone[0]) | keys(alone[1])) - joined
        assert method_of(text).cost.up >= max(method.cost.up for method in alone)


PAPERS = {
    "FedDyn + SAM": "feddyn(alpha=0.1) + sam(rho=0.05)",
    "FedAvgM + ASAM + SWA": "fedavgm(beta=0.5) + asam(rho=0.1) + swa(start=1, cycle=1)",
    "SCAFFOLD + ASAM": "scaffold() + asam(rho=0.1)",
    "AdaBest + ASAM + SWA": "adabest() + asam(rho=0.1) + swa(start=1, cycle=2)",
    "FedDC + MAN": "feddc(alpha=0.1) + man(zeta=0.15)",
    "FedDC + MAN, all clients": "feddc(alpha=0.1) + man(zeta=0.15) + all_clients() + clip(10)",
    "FedSpeed + MAN": "fedspeed(rho=0.1, lam=100) + man(zeta=0.15)",
    "FedSpeed as released + MAN": "fedspeed(rho=0.1, lam=100, server='feddyn') + man(zeta=0.15)",
    "FedSpeed + FSA": "fedspeed(lam=100) + fsa(rho=0.05, rho_larger=0.1)",
    "FedSAM + MAN": "fedsam(rho=0.05) + man(zeta=0.15)",
    "FedASAM + MAN": "fedasam(rho=0.5) + man(zeta=0.15)",
    "FedSMOO, radius warmed up": "fedsmoo(rho=warmup(0.001, 0.1, 2), beta=10)",
    "FedGloSS, ASAM": "fedgloss(rho_s=0.05, beta=10) + asam(rho=0.1)",
    "FedGloSS, SAM warmed up": "fedgloss(rho_s=0.05, rho_l=0.1, beta=10, T_s=2)",
    "FedLESAM-S": "fedlesam(rho=0.05) + scaffold()",
    "FedLESAM-D": "fedlesam(rho=0.05) + feddyn(alpha=0.1)",
    "FedSAM + Mixup + SWA": "fedsam(rho=0.05) + mixup() + swa(start=1, cycle=1)",
} | {
    f"{base} + WiMA": f"{text} + wima(window=2)"
    for base, text in BASES.items()
    if base not in RECENT
}


@pytest.mark.parametrize("name", PAPERS)
def test_the_combinations_of_the_papers(name: str) -> None:
    assert trains(method_of(PAPERS[name]))


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/combinations.md holds the table. That the combinations train is tested above."""
    monkeypatch.setattr(combinations, "trains", lambda method: True)
    table = matrix()
    assert table in PAGE.read_text(encoding="utf-8")
    head, rule, *rows = table.splitlines()
    columns = len(ADDED) + 1
    assert all(line.count("|") == columns + 1 for line in (head, rule, *rows))
    found = {
        row.split("|")[1].strip(): [cell.strip() for cell in row.split("|")[2:-1]] for row in rows
    }
    assert list(found) == list(BASES)
    for base, cells in found.items():
        for added, cell in zip(ADDED, cells, strict=True):
            probe, momentum = (
                added if added in PROBES else "",
                added if added == "server_momentum" else "",
            )
            assert (cell == "✓") == (refused(base, probe, momentum) is None)
    monkeypatch.setattr(combinations, "trains", lambda method: False)
    with pytest.raises(AssertionError, match=r"FedAvg \+ sam"):
        matrix()


def test_a_network_without_activation_modules_is_refused() -> None:
    run = ready(method_of("fedavg()"))
    model_info = ModelInfo(man().client, torch.nn.Linear(2, 2), run.job.learner.flat.layout)
    with pytest.raises(SettingError, match="man needs activation modules"):
        man().client[0].check(model_info)
