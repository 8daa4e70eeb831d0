"""Values on the toy problem Q (see ``problem.py``), worked out apart from the code, to 8 decimals.

A ``Case`` says how a method is run and what must come out. ``server`` is the model after every
round. ``state`` maps a path into the twin's trace to a value: ``("sigma", -1)`` is sigma after the
last round, ``("sigma_k", -1, 0)`` that of client 0, ``("eps", 0, 0, 0)`` the perturbation of round
0, client 0, step 0. Compare with atol 1e-7.

>>> CASES["feddyn/full"].settings, CASES["feddyn/full"].server[0]
({'alpha': 0.1}, (1.717, 0.797))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ATOL = 1e-7

Vector = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run on Q and what it gives."""

    twin: str
    """The module of the method in this folder."""
    server: list[Vector]
    """w^1, w^2, ..."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the twin's ``run``."""
    participation: str = "full"
    sizes: tuple[int, int] = (1, 1)
    plan: Mapping[str, float] = field(default_factory=dict)
    """What differs from Q's plan: wd, momentum, server_lr."""
    state: Mapping[tuple[Any, ...], Any] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return len(self.server)


# 2 The problem itself
Q = {
    "gradients": [(4.0, 3.0), (3.0, 4.0)],
    "loss": 7.5,
    "gradient": (3.5, 3.5),
    "hessian": (1.5, 2.5),
    "argmin": (2 / 3, 3 / 5),
    "minimum": 0.96666667,
}

CASES = {
    # 3.1 FedAvg (McMahan et al., AISTATS 2017)
    "fedavg/full": Case(
        twin="fedavg",
        server=[(2.355, 1.395), (1.887375, 1.041075)],
        state={("local", 0, 0): (2.28, 1.43), ("local", 0, 1): (2.43, 1.36)},
    ),
    "fedavg/part": Case(
        twin="fedavg",
        participation="part",
        server=[(2.28, 1.43), (1.8468, 1.1548), (1.541952, 0.745388)],
    ),
    "fedavg/sized": Case(
        twin="fedavg", sizes=(300, 100), server=[(2.3175, 1.4125), (1.85169375, 1.00271875)]
    ),
    "fedavg/momentum": Case(
        twin="fedavg",
        plan={"momentum": 0.9, "wd": 0.1},
        server=[(1.9613, 1.0307), (1.37536933, 0.70491827)],
    ),
    # 3.2 FedOpt (Hsu et al. 2019; Reddi et al., ICLR 2021)
    "fedavgm/full": Case(
        twin="fedopt", settings={"optimiser": "avgm"}, server=[(2.355, 1.395), (1.306875, 0.496575)]
    ),
    "fedadam/full": Case(
        twin="fedopt",
        settings={"optimiser": "adam"},
        plan={"server_lr": 0.1},
        server=[(2.90153825, 1.90163910), (2.76852052, 1.76887624)],
    ),
    "fedyogi/full": Case(
        twin="fedopt",
        settings={"optimiser": "yogi"},
        plan={"server_lr": 0.1},
        server=[(2.90153837, 1.90163923), (2.76886417, 1.76922779)],
    ),
    "fedadagrad/full": Case(
        twin="fedopt",
        settings={"optimiser": "adagrad"},
        plan={"server_lr": 0.1},
        server=[(2.90015492, 1.90016515), (2.83107579, 1.83208673)],
    ),
    "fedadam/torch": Case(
        twin="fedopt",
        settings={"optimiser": "adam", "flavour": "torch"},
        plan={"server_lr": 0.1},
        server=[(2.91342282, 1.91418440), (2.82715520, 1.82889513)],
    ),
    "fedadagrad/torch": Case(
        twin="fedopt",
        settings={"optimiser": "adagrad", "flavour": "torch"},
        plan={"server_lr": 0.1},
        server=[(2.90152672, 1.90162602), (2.83311406, 1.83424056)],
    ),
    # 4.1 FedProx (Li et al., MLSys 2020)
    "fedprox/full": Case(
        twin="fedprox", settings={"mu_p": 0.5}, server=[(2.3725, 1.4125), (1.91285625, 1.06146875)]
    ),
    # 4.2 SCAFFOLD (Karimireddy et al., ICML 2020)
    "scaffold/full": Case(
        twin="scaffold",
        server=[(2.355, 1.395), (1.8855, 1.03845)],
        state={
            ("c", -1): (2.3475, 1.78275),
            ("c_k", -1, 0): (2.4765, 2.2665),
            ("c_k", -1, 1): (2.2185, 1.299),
        },
    ),
    "scaffold/part": Case(
        twin="scaffold",
        participation="part",
        server=[(2.28, 1.43), (1.5048, 0.9268), (1.460232, 0.727813)],
        state={("c", -1): (1.53042, 1.4827175)},
    ),
    # 4.3 FedDyn (Acar et al., ICLR 2021)
    "feddyn/full": Case(
        twin="feddyn",
        settings={"alpha": 0.1},
        server=[(1.717, 0.797), (0.51783370, 0.00580370)],
        state={
            ("sigma", -1): (0.09203332, 0.06963482),
            ("sigma_k", -1, 0): (0.09598696, 0.08959167),
            ("sigma_k", -1, 1): (0.08807967, 0.04967796),
            ("active", -1): (1.43816685, 0.70215185),
        },
    ),
    "feddyn/part": Case(
        twin="feddyn",
        settings={"alpha": 0.1},
        participation="part",
        server=[(1.926, 1.1495), (1.021979, 0.723377), (0.48939388, -0.08016693)],
        state={("all",): [(2.642, 1.7165), (1.922993, 1.243709), (1.29445646, 0.73139652)]},
    ),
    "feddyn/sam": Case(
        twin="feddyn",
        settings={"alpha": 0.1, "rho_l": 0.5},
        server=[(1.51021867, 0.53283225), (0.15823195, -0.09156441)],
    ),
    # alpha_1 = 0.1 * 2/3 and alpha_2 = 0.1 * 2; the first local models are (2.28266667, 1.432) and
    # (2.436, 1.368)
    "feddyn/by size": Case(
        twin="feddyn",
        settings={"alpha": 0.1, "scaled": True},
        sizes=(3, 1),
        server=[(1.71866667, 0.8), (0.52691140, 0.01274062)],
        state={("local", 0, 0): (2.28266667, 1.432), ("local", 0, 1): (2.436, 1.368)},
    ),
    # 4.4 AdaBest (Varno et al., ECCV 2022)
    "adabest/full": Case(
        twin="adabest",
        settings={"mu_a": 0.02, "beta_a": 0.9},
        server=[(1.7745, 0.8505), (0.67139385, 0.12133405)],
    ),
    "adabest/part": Case(
        twin="adabest",
        settings={"mu_a": 0.02, "beta_a": 0.9},
        participation="part",
        server=[(1.632, 0.917), (0.459648, 0.556228), (0.05812877, -0.37395771)],
    ),
    # In round 1 mu is multiplied by 2 * 2 / 3 for client 0 (batches of 3 and 1 so far) and 2 *
    # (7/3) / 1 for client 1
    "adabest/per sample": Case(
        twin="adabest",
        settings={"mu_a": 0.02, "beta_a": 0.9, "mu_mode": "per_sample"},
        sizes=(3, 1),
        server=[(1.7745, 0.8505), (0.67975955, 0.12915381)],
        state={("local", 1, 0): (1.499136, 0.501793), ("local", 1, 1): (1.447453, 0.95573733)},
    ),
    # 4.5 FedDC (Gao et al., CVPR 2022)
    "feddc/full": Case(
        twin="feddc", settings={"alpha": 0.1}, server=[(1.717, 0.797), (0.51410870, 0.00062870)]
    ),
    "feddc/part": Case(
        twin="feddc",
        settings={"alpha": 0.1},
        participation="part",
        server=[(1.926, 1.1495), (0.514514, 0.38530325), (0.33477010, -0.05942536)],
    ),
    # 5.1 FedCM (Xu et al. 2021)
    "fedcm/full": Case(
        twin="fedcm",
        settings={"a": 0.1},
        server=[(2.93055, 1.93095), (2.80112993, 1.80392562), (2.62199183, 1.63161976)],
    ),
    # 5.2 Mime, MimeLite (Karimireddy et al., NeurIPS 2021)
    "mime/sgd": Case(twin="mime", server=[(2.3525, 1.3875), (1.88468125, 1.04296875)]),
    "mime/sgdm": Case(
        twin="mime",
        settings={"b": 0.9},
        server=[(2.3525, 1.3875), (1.30193125, 0.49171875)],
        state={("m", -1): (5.67875, 5.11875)},
    ),
    "mimelite/sgdm": Case(
        twin="mime",
        settings={"b": 0.9, "lite": True},
        server=[(2.355, 1.395), (1.304625, 0.489825)],
    ),
    # 5.3 FedACG (Kim et al., CVPR 2024)
    "fedacg/full": Case(
        twin="fedacg",
        settings={"lam": 0.85, "beta_p": 0.1},
        server=[(2.3585, 1.3985), (1.49630796, 0.74474469)],
    ),
    # 6.1 FedSAM (Qu et al., ICML 2022; Caldarola et al., ECCV 2022)
    "fedsam/full": Case(
        twin="fedsam",
        settings={"rho": 0.5},
        server=[(2.25105933, 1.26196613), (1.70324857, 0.88995231)],
        state={("eps", 0, 0, 0): (0.4, 0.3), ("u", 0, 0, 0): (4.8, 3.3)},
    ),
    "fedsam/decay": Case(
        twin="fedsam",
        settings={"rho": 0.5},
        plan={"wd": 0.1},
        server=[(2.19989492, 1.23284946), (1.62941942, 0.85914724)],
    ),
    # DP-FedSAM (Shi et al., CVPR 2023), without noise
    "dp_fedsam/full": Case(
        twin="dp_fedsam",
        settings={"rho": 0.5, "noise": 0.0, "clip": 0.5},
        server=[(2.64776267, 1.65264026), (2.2736333, 1.32237765)],
    ),
    "dp_fedsam/part": Case(
        twin="dp_fedsam",
        settings={"rho": 0.5, "noise": 0.0, "clip": 0.5},
        participation="part",
        server=[
            (2.59678917, 1.70432952),
            (2.26029012, 1.33450742),
            (1.88534224, 1.00372942),
        ],
    ),
    # 6.2 FedASAM (Kwon et al., ICML 2021; Caldarola et al., ECCV 2022)
    "fedasam/full": Case(
        twin="fedasam",
        settings={"rho": 0.5, "eta_a": 0.2},
        server=[(2.01964831, 1.21871077), (1.40994775, 0.86616953)],
        state={("eps", 0, 0, 0): (1.42208507, 0.50411805)},
    ),
    "fedasam/bias": Case(
        twin="fedasam",
        settings={"rho": 0.5, "eta_a": 0.2, "is_weight": (True, False)},
        server=[(1.98322629, 1.32857655), (1.38338205, 0.93931433)],
        state={("eps", 0, 0, 0): (1.55778610, 0.11409566)},
    ),
    # 6.3 MoFedSAM (Qu et al., ICML 2022)
    "mofedsam/full": Case(
        twin="mofedsam",
        settings={"a": 0.1, "rho": 0.5},
        server=[(2.91961957, 1.91240927), (2.76971650, 1.75174591), (2.56195164, 1.53507910)],
    ),
    # 6.4 FedSpeed (Sun et al., ICLR 2023)
    "fedspeed/full": Case(
        twin="fedspeed",
        settings={"rho": 0.5, "a_s": 0.95, "lam": 10.0},
        server=[(1.52070525, 0.54480377), (0.17485367, -0.08751962)],
    ),
    "fedspeed/part": Case(
        twin="fedspeed",
        settings={"rho": 0.5, "a_s": 0.95, "lam": 10.0},
        participation="part",
        server=[(1.30503502, 0.75265235), (0.65001377, 1.24737559), (0.17335920, -0.37522144)],
    ),
    # 6.5 FedGamma (Dai et al., TNNLS 2023)
    "fedgamma/full": Case(
        twin="fedgamma",
        settings={"rho": 0.5},
        server=[(2.25105933, 1.26196613), (1.69952369, 0.87165803)],
    ),
    "fedgamma/part": Case(
        twin="fedgamma",
        settings={"rho": 0.5},
        participation="part",
        server=[(2.14086494, 1.37000484), (1.23933932, 0.83637249), (1.27777865, 0.59153026)],
    ),
    # 6.6 FedLESAM (Fan et al., ICML 2024)
    "fedlesam/full": Case(
        twin="fedlesam",
        settings={"rho": 0.5},
        server=[(2.355, 1.395), (1.78708788, 0.89911820)],
        state={("eps", 1, 0): (0.36468043, 0.34206459), ("eps", 1, 1): (0.36468043, 0.34206459)},
    ),
    "fedlesam/part": Case(
        twin="fedlesam",
        settings={"rho": 0.5},
        participation="part",
        server=[(2.28, 1.43), (1.8468, 1.1548), (1.39677029, 0.68922919)],
        state={
            ("eps", 0, 0): (0.0, 0.0),
            ("eps", 1, 1): (0.0, 0.0),
            ("eps", 2, 0): (0.40328253, 0.29557266),
        },
    ),
    # 7.1 FedSMOO (Sun et al., ICML 2023)
    "fedsmoo/full": Case(
        twin="fedsmoo",
        settings={"rho": 0.5, "beta": 10.0},
        server=[(1.50931951, 0.54295559), (0.22613556, -0.00226798)],
        state={("s", -1): (0.49938481, 0.02479529)},
    ),
    "fedsmoo/part": Case(
        twin="fedsmoo",
        settings={"rho": 0.5, "beta": 10.0},
        participation="part",
        server=[(1.71957983, 1.05934776), (0.66540178, 0.63516275), (0.44766077, -0.24516605)],
    ),
    # 7.2 NaiveFedGloSS (Caldarola et al., CVPR 2025)
    "naive_fedgloss/full": Case(
        twin="naive_fedgloss",
        settings={"rho_s": 0.5},
        server=[(2.25471288, 1.25304320), (1.70045782, 0.84248326)],
    ),
    "naive_fedgloss/admm": Case(
        twin="naive_fedgloss",
        settings={"rho_s": 0.5, "beta": 10.0},
        server=[(1.51748612, 0.51485088), (0.05939948, -0.13594010)],
    ),
    # 7.3 FedGloSS (Caldarola et al., CVPR 2025)
    "fedgloss/full": Case(
        twin="fedgloss",
        settings={"rho_s": 0.5},
        server=[(2.355, 1.395), (1.78708788, 0.89911820)],
        state={("eps", 1): (0.36468043, 0.34206459), ("delta_eps", 1): 0.05274265},
    ),
    "fedgloss/admm": Case(
        twin="fedgloss",
        settings={"rho_s": 0.5, "beta": 10.0},
        server=[(1.717, 0.797), (0.31831982, -0.27634542)],
        state={
            ("eps", 1): (0.364742, 0.34199893),
            ("delta_eps", 1): 0.21107357,
            ("sigma", -1): (0.10200901, 0.08374227),
        },
    ),
    "fedgloss/admm-part": Case(
        twin="fedgloss",
        settings={"rho_s": 0.5, "beta": 10.0},
        participation="part",
        server=[(1.926, 1.1495), (0.91085309, 0.42724819), (0.17759771, -0.46976277)],
    ),
    "fedgloss/sam": Case(
        twin="fedgloss",
        settings={"rho_s": 0.5, "beta": 10.0, "local": "sam", "rho_l": 0.5},
        server=[(1.51021867, 0.53283225), (-0.07755886, -0.49520034)],
    ),
    "fedgloss/sam-part": Case(
        twin="fedgloss",
        settings={"rho_s": 0.5, "beta": 10.0, "local": "sam", "rho_l": 0.5},
        participation="part",
        server=[(1.71849742, 1.05995725), (0.56112935, 0.24466299), (-0.06581041, -0.79309494)],
    ),
    "fedgloss/repo": Case(
        twin="fedgloss",
        settings={"rho_s": 0.5, "beta": 10.0, "dual_scale": "repo"},
        server=[(2.03775, 1.09775), (1.01752718, 0.25702687)],
    ),
    # 8.1 FedFSA (Xing et al., AAAI 2025), each coordinate a layer
    "fedfsa/full": Case(
        twin="fedfsa",
        settings={"rho_default": 0.1, "rho_larger": 0.9, "C": 1, "a": 0.1, "score": "mse"},
        server=[(2.92836562, 1.92723477), (2.78229347, 1.76930375)],
        state={
            ("scores", 0, 0): (0.00678346, 0.00370858),
            ("scores", 0, 1): (0.00370966, 0.00716263),
            ("top", 0): [[0], [1]],
        },
    ),
    "fedfsa/local": Case(
        twin="fedfsa",
        settings={"rho_default": 0.1, "rho_larger": 0.9, "C": 1, "a": 0.1, "score": "local"},
        server=[(2.92836562, 1.92723477), (2.78229347, 1.76930375)],
        state={
            ("scores", 0, 0): (0.32482391, 0.18304091),
            ("scores", 0, 1): (0.18578184, 0.32734985),
            ("top", 0): [[0], [1]],
        },
    ),
    "fedfsa/reverse": Case(
        twin="fedfsa",
        settings={
            "rho_default": 0.1,
            "rho_larger": 0.9,
            "C": 1,
            "a": 0.1,
            "score": "mse",
            "selection": "reverse",
        },
        server=[(2.92836562, 1.92723477), (2.78983688, 1.78861099)],
        state={("top", 0): [[1], [0]]},
    ),
}

SERIES = (10.0, 8.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0)

# 10.1 SWA (Caldarola et al., ECCV 2022): rates of one cycle and the next one's first; start 4,
# cycle 2, eight rounds whose last four models are 4, 3, 2, 1, so that 3 and 1 are captured
SWA_RATES = {
    "settings": {"cycle": 4, "gamma_1": 1e-2, "gamma_2": 1e-4},
    "rates": (0.007525, 0.00505, 0.002575, 0.0001, 0.007525),
}
SWA = {
    "start": 4,
    "cycle": 2,
    "models": (4.0, 3.0, 2.0, 1.0),
    "captured": (5, 7),
    "average": (3.0, 2.0),
}

# 10.2 WiMA (Caldarola et al., ICCV Workshops 2023), on SERIES
WIMA = {"window": 3, "average": (10.0, 9.0, 8.0, 6.33333333, 5.0, 4.0, 3.0, 2.0)}

# 10.3 EMA, on SERIES
EMA = {"gamma": 0.9, "average": (10.0, 9.8, 9.42, 8.978, 8.4802, 7.93218, 7.338962, 6.7050658)}
