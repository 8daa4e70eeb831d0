"""Methods: ``+`` sorts pieces, `chain` keeps their order, and impossible combinations are
refused."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from fedflat import (
    adabest,
    asam,
    clip,
    cutout,
    digits,
    ema,
    fedacg,
    fedavg,
    fedavgm,
    feddyn,
    fedgloss,
    fedsam,
    fedsmoo,
    fedspeed,
    last_sam,
    mime,
    mimelite,
    mixup,
    naive_fedgloss,
    prox,
    sam,
    server_sgd,
    swa,
    wima,
)
from fedflat.client.gradient_transforms import Momentum, Prox, WeightDecay
from fedflat.client.local import LocalTraining
from fedflat.client.piece import Piece
from fedflat.client.sharpness import Sam
from fedflat.composition.method import Method, chain, method
from fedflat.core.stage import Stage
from fedflat.errors import SettingError
from fedflat.experiments.experiment import Experiment
from fedflat.models.simple import mlp
from fedflat.registry.specs import _REGISTRY, parse
from fedflat.server.optimizers import ServerMomentum


@dataclass(frozen=True, repr=False)
class Keeper(Piece):
    """A piece whose memory moves at each gradient, near the data."""

    stage, key, stateful = Stage.CORRECT, "keeper", True


@dataclass(frozen=True, repr=False)
class Up(Piece):
    """A piece that sends three vectors back."""

    stage, key, upload_vectors = Stage.CORRECT, "up", 3


def keys(pieces: tuple[object, ...]) -> list[str]:
    return [piece.key for piece in pieces]  # type: ignore[attr-defined]


def test_a_sum_is_in_the_papers_order_however_it_is_written() -> None:
    parts = [sam(0.1), clip(1.0), prox(0.2), mixup(), server_sgd(0.5), fedavgm(0.9)]
    for order in itertools.permutations(parts, len(parts)):
        whole = sum(order[1:], start=order[0])
        assert keys(whole.client) == ["mixup", "sam", "prox", "clip"]
        assert keys(whole.server) == ["server_sgd", "server_momentum"]
    assert keys((feddyn() + sam()).client) == ["sam", "dual"]
    assert keys((server_sgd() + fedgloss()).server) == ["stale_sam", "server_sgd", "dual"]


def test_within_a_stage_the_order_written_is_kept() -> None:
    assert keys((mixup() + cutout()).client) == ["mixup", "cutout"]
    assert keys((cutout() + mixup()).client) == ["cutout", "mixup"]


def test_a_chain_keeps_its_order() -> None:
    kept = chain(prox(0.1), asam(0.2))
    assert keys(kept.client) == ["prox", "asam"]
    assert keys((prox(0.1) + asam(0.2)).client) == ["asam", "prox"]
    assert repr(kept) == "chain(prox(mu=0.1), asam(rho=0.2))"
    assert keys(chain(prox(0.1), fedgloss(), wima(3), ema()).averages) == ["wima", "ema"]
    assert keys((kept + wima(3)).client) == ["prox", "asam"]
    assert keys(chain(kept, clip(1.0)).client) == ["prox", "asam", "clip"]


def test_a_chain_cannot_be_blended() -> None:
    with pytest.raises(SettingError, match=r"both have client pieces and one of them is a chain"):
        chain(sam()) + prox()
    with pytest.raises(SettingError, match=r"both have server pieces"):
        server_sgd() + chain(fedavgm())
    assert keys((chain(sam()) + server_sgd() + swa()).server) == ["server_sgd"]


@pytest.mark.parametrize("wrong", [(), (3,), (sam(), "asam()"), (Sam(0.1),)])
def test_a_chain_joins_methods(wrong: tuple[object, ...]) -> None:
    with pytest.raises(SettingError, match=r"chain\(\)"):
        chain(*wrong)  # type: ignore[arg-type]


def test_only_methods_are_added() -> None:
    with pytest.raises(TypeError):
        sam() + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        Sam(0.1) + sam()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (sam(0.1), fedsam(0.2), "sam"),
        (feddyn(), fedgloss(), "dual"),
        (fedavgm(), fedavgm(), "server_momentum"),
        (wima(2), wima(3), "wima"),
    ],
)
def test_two_of_a_kind_are_refused(one: Method, other: Method, name: str) -> None:
    with pytest.raises(SettingError, match=f"under the name '{name}'.*Leave one of them out"):
        one + other
    with pytest.raises(SettingError, match=f"under the name '{name}'"):
        chain(one, other)


def test_a_memory_is_not_moved_twice() -> None:
    keeper = Method(client=(Keeper(),), text="keeper()")
    assert keys((keeper + sam(0.1)).client) == ["sam", "keeper"]
    with pytest.raises(
        SettingError, match=r"keeper\(\) has a state, and sam\(rho=0.1\) to its right makes"
    ):
        chain(keeper, sam(0.1))
    with pytest.raises(SettingError, match="makes 2 exchanges a round"):
        chain(fedavgm(), naive_fedgloss(admm=False))
    assert keys((fedavgm() + naive_fedgloss(admm=False)).server) == [
        "server_sam",
        "server_momentum",
    ]
    with pytest.raises(SettingError, match="makes 2 exchanges"):
        chain(feddyn(), naive_fedgloss(admm=False))


def test_weightings_must_agree() -> None:
    assert (feddyn() + sam()).weighting == "uniform"
    assert (sam() + feddyn()).weighting == "uniform"
    assert fedavg().weighting is None
    with pytest.raises(SettingError, match="needs sized weighting of clients"):
        Method(weighting="sized", text="mine()") + feddyn()


@pytest.mark.parametrize(
    ("one", "other"), [(feddyn(), adabest()), (fedacg(), adabest()), (fedsmoo(), fedacg())]
)
def test_the_server_steps_where_one_piece_says(one: Method, other: Method) -> None:
    for pair in ((one, other), (other, one)):
        with pytest.raises(
            SettingError, match="both decide where the server steps to, so one would undo the other"
        ):
            pair[0] + pair[1]


def test_two_probes_are_nested_on_purpose_only() -> None:
    for pair in ((sam(), asam()), (fedsmoo(), sam()), (sam(), fedsmoo())):
        with pytest.raises(SettingError, match="both choose where a client's gradient is taken"):
            pair[0] + pair[1]
    assert keys(chain(sam(), asam()).client) == ["sam", "asam"]
    with pytest.raises(
        SettingError, match=r"smoo\(0.1\) has a state, and sam\(\) to its right makes"
    ):
        chain(fedsmoo(), sam())


def test_a_first_exchange_for_the_gradient_changes_no_state() -> None:
    with pytest.raises(
        SettingError, match=r"stale_sam\(0.15\) has a state, and mime\(.*makes 2 exchanges"
    ):
        fedgloss(admm=False) + mime()
    assert keys((fedgloss(admm=False) + mimelite()).server) == ["stale_sam", "mime"]


def test_advice_is_not_to_do_what_was_done() -> None:
    """Where '+' itself puts the memory left of what asks twice, only a chain can help, and it
    does."""
    for one, other, words in (
        (mime(), last_sam(0.1), r"write mime\(0.9, 0.0\) first in a chain"),
        (fedgloss(admm=False), mime(), r"write mime\(0.9, 0.0, False\) first in a chain"),
    ):
        with pytest.raises(SettingError, match=words) as refused:
            one + other
        assert "add them with '+'" not in str(refused.value)
    assert keys(chain(mime(), last_sam(0.1)).client) == ["mime", "last_sam"]
    assert keys(chain(mime(), fedgloss(admm=False)).server) == ["mime", "stale_sam"]
    with pytest.raises(SettingError, match=r"Write sam\(rho=0.1\) first, or add them with '\+'"):
        chain(Method(client=(Keeper(),)), sam(0.1))
    with pytest.raises(SettingError, match=r"Write mime\(0.9, 0.0\) first\."):
        chain(last_sam(0.1), mime())


@pytest.mark.parametrize("owner", [adabest(), fedacg()])
def test_a_rate_that_would_scale_nothing_is_refused(owner: Method) -> None:
    for pair in ((owner, server_sgd(0.5)), (server_sgd(0.5), owner)):
        with pytest.raises(
            SettingError,
            match=r"averages the replies itself .* nothing for server_sgd\(lr=0.5\) to",
        ):
            pair[0] + pair[1]
    with pytest.raises(SettingError, match="nothing for server_sgd"):
        chain(server_sgd(0.5), owner)
    assert (
        keys(chain(owner, server_sgd(0.5)).server)[1] == "server_sgd"
    )  # scales the step that was decided
    assert keys((owner + fedavgm()).server)[1] == "server_momentum"


@pytest.mark.parametrize("owner", [adabest(), fedacg()])
def test_a_weighting_that_would_change_nothing_is_refused(owner: Method) -> None:
    settings = {"method": owner, "on": digits(clients=2), "model": mlp(), "rounds": 1}
    with pytest.raises(
        SettingError, match=r"weighting='sized' would change nothing, since .* the uniform mean"
    ):
        Experiment(weighting="sized", **settings)
    assert Experiment(weighting="uniform", **settings).weighting == "uniform"


def test_arguments_that_would_change_nothing_are_refused() -> None:
    with pytest.raises(SettingError, match=r"all perturbed \(a=1\), found a=0.5. Leave a out"):
        fedspeed(a=0.5, server="feddyn")
    assert fedspeed(a=1, server="feddyn") == fedspeed(server="feddyn")
    assert fedspeed() == fedspeed(a=0.95) != fedspeed(a=1)
    with pytest.raises(
        SettingError,
        match=r"T_s=20 warms up rho_l, .* which is 0. .*sam\(rho=warmup\(0.001, 0.05, 20",
    ):
        fedgloss(rho_l=0, T_s=20) + sam()
    assert fedgloss(rho_l=0, T_s=20, server_rho="repo") != fedgloss(
        rho_l=0
    )  # there the server's radius is warmed up


def test_equal_methods() -> None:
    assert fedsam(0.1) == fedavg() + sam(0.1) == parse("fedsam(rho=0.1)", "method")
    assert fedsam(0.1) != fedsam(0.2)
    assert hash(fedsam(0.1)) == hash(sam(0.1))


@pytest.mark.parametrize(
    ("what", "cost"),
    [
        (fedavg(), (1, 1, 1)),
        (fedsam(), (1, 1, 2)),
        (feddyn() + asam(), (1, 1, 2)),
        (fedgloss(rho_l=0.1), (1, 1, 2)),
        (fedgloss(delta_eps=True), (2, 2, 1)),
        (naive_fedgloss(), (2, 2, 1)),
        (Method(client=(Up(), Sam(0.1))), (1, 4, 2)),
        (naive_fedgloss() + Method(client=(Up(),)), (2, 8, 1)),
        (Method(pooled=True), (0, 0, 1)),
    ],
)
def test_costs(what: Method, cost: tuple[int, int, int]) -> None:
    assert (what.cost.down, what.cost.up, what.cost.gradients) == cost


def test_the_local_settings_come_last() -> None:
    local = LocalTraining(weight_decay=0.1, momentum=0.9, clip=5.0)
    for config in (feddyn() + sam(), chain(sam(), feddyn())):
        exp = Experiment(method=config, on=digits(clients=2), model=mlp(), rounds=1, local=local)
        assert keys(exp.pieces()) == ["sam", "dual", "clip", "decay", "momentum"]
    with pytest.raises(
        SettingError, match="two client pieces store their state under the name 'clip'"
    ):
        Experiment(method=clip(1.0), on=digits(clients=2), model=mlp(), rounds=1, local=local)


def test_a_method_of_your_own() -> None:
    try:

        @method
        def mine(mu: float = 0.5, beta: float = 0.9) -> Method:
            """A pull and a momentum."""
            return Method(client=(Prox(mu),), server=(ServerMomentum(beta),))

        assert repr(mine(0.2)) == "mine(mu=0.2)"
        assert parse("mine(mu=0.2) + sam(rho=0.1)", "method") == sam(0.1) + mine(0.2)
        assert repr(mine() + sam()) == "mine() + sam()"
    finally:
        del _REGISTRY["mine"]


def test_text_for_people() -> None:
    assert fedavg().stack() == "client: plain steps; server: plain average"
    assert (
        sam(0.1) + wima(5)
    ).stack() == "client: sam(rho=0.1); evaluated: wima(window=5, scope='all')"
    unsaid = Method(client=(Momentum(0.9), WeightDecay(0.1)))
    assert repr(unsaid) == "Method(client=(decay(0.1), momentum(0.9)), server=(), averages=())"
