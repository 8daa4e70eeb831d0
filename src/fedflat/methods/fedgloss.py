"""FedGloSS: global SAM at the traffic of FedAvg, and its exact form with twice the traffic.

Caldarola et al., Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware
Minimization for Federated Learning, CVPR 2025.

    server   eps = rho_s D' / ||D'||     D': the last round's pseudo-gradient; eps = 0 in round 0
             sends wt = w + eps
    client   from wt:  u = q - sigma_k + (w - wt)/beta;    sigma_k <- sigma_k - (w_k - wt)/beta
             q is a plain, a SAM, or any other local gradient
    server   D = sum_k p_k (wt - w_k) (sized);  D' <- D
             sigma <- sigma - 1/(beta K) sum_k (w_k - wt);   w <- w - D - beta sigma

NaiveFedGloSS computes eps in a first exchange at ``w`` with the same clients, which do not store
it.

Where paper and released code differ: the dual is measured from ``wt`` (code, and line 19 of the
paper's Algorithm 1; line 22 has ``w``, which would let eps leak into it). ``dual_scale="repo"``
divides the server's dual by the cohort's size as well. The radius of the local SAM is warmed up
over ``T_s`` rounds from ``rho_0``. ``server_rho="repo"`` also gives the server the radius ``rho_l +
(rho_s - rho_0)/T_s`` during that time, as the code does by reading the wrong list.
"""

from __future__ import annotations

from fedflat.client.sharpness import Sam
from fedflat.composition.method import Method, method
from fedflat.core.schedules import Scalar, Steps, Warmup
from fedflat.errors import SettingError, choice, flag, number
from fedflat.methods.feddyn import Dual, ServerDual
from fedflat.server.piece import ServerPiece
from fedflat.server.sharpness import ServerSam, StaleSam


def _with_sam_and_duals(
    probe: ServerPiece, rho_l: Scalar, beta: float, admm: bool, dual_scale: str
) -> Method:
    """A server probe, with local SAM and duals if they are set."""
    choice("fedgloss", "dual_scale", dual_scale, ["paper", "repo"])
    number("fedgloss", "beta", beta, low=0, open_low=True)
    flag("fedgloss", "admm", admm)
    sam = (Sam(rho_l),) if rho_l != 0 else ()
    if not admm:
        return Method(client=sam, server=(probe,))
    return Method(client=(*sam, Dual(1 / beta)), server=(probe, ServerDual(1 / beta, dual_scale)))


@method
def naive_fedgloss(
    rho_s: Scalar = 0.15,
    rho_l: Scalar = 0.0,
    beta: float = 10.0,
    admm: bool = True,
    dual_scale: str = "paper",
) -> Method:
    """Global SAM with an exact perturbation: two exchanges a round (Caldarola et al., CVPR 2025).

    ``rho_l`` is the radius of local SAM, 0 for plain SGD. Duals (``admm``) are updated once, after
    the second exchange.
    """
    return _with_sam_and_duals(ServerSam(rho_s), rho_l, beta, admm, dual_scale)


@method
def fedgloss(
    rho_s: Scalar = 0.15,
    rho_l: Scalar = 0.0,
    beta: float = 10.0,
    admm: bool = True,
    T_s: int = 0,
    rho_0: float = 0.001,
    dual_scale: str = "paper",
    server_rho: str = "constant",
    delta_eps: bool = False,
) -> Method:
    """Global SAM along the last round's pseudo-gradient (Caldarola et al., CVPR 2025).

    ``rho_s`` is the server's radius. ``rho_l`` is that of local SAM, 0 for plain SGD (or add
    another local optimiser, such as ``asam()``), warmed up from ``rho_0`` over ``T_s`` rounds.
    ``beta`` is the inverse weight of the penalty; ``admm=False`` drops duals and penalty.
    ``delta_eps=True`` measures the staleness with one more exchange a round.
    """
    choice("fedgloss", "server_rho", server_rho, ["constant", "repo"])
    number("fedgloss", "T_s", T_s, low=0, whole=True)
    number("fedgloss", "rho_0", rho_0, low=0)
    flag("fedgloss", "delta_eps", delta_eps)
    if T_s and not (isinstance(rho_l, int | float) and isinstance(rho_s, int | float)):
        raise SettingError(
            "fedgloss: T_s warms up plain numbers; leave it out if rho_l or rho_s is a schedule."
        )
    if T_s and rho_l == 0 and server_rho == "constant":
        raise SettingError(
            f"fedgloss: T_s={T_s} warms up rho_l, the radius of local SAM, which is 0. Give rho_l, "
            f"or warm up the radius of the piece you add: sam(rho=warmup({rho_0:g}, 0.05, {T_s}))."
        )
    if T_s and server_rho == "repo":
        warm = rho_l + (rho_s - rho_0) / T_s  # type: ignore[operator]
        rho_s = Steps((0, T_s + 1), (warm, rho_s))  # type: ignore[arg-type]
    if T_s and rho_l != 0:
        rho_l = Warmup(rho_0, rho_l, T_s)  # type: ignore[arg-type]
    return _with_sam_and_duals(StaleSam(rho_s, delta_eps), rho_l, beta, admm, dual_scale)
