"""More values on the toy problem Q, for the methods of 2020 to 2026; see ``numbers.py``.

They were computed apart from the code, in plain floats, to 8 decimals. FedExP's step is 1 on Q, and
FedNova's clients take equally many steps, so both give FedAvg's numbers there.
"""

from __future__ import annotations

from literal.numbers import CASES as EARLIER
from literal.numbers import Case

FEDAVG = {kind: EARLIER[f"fedavg/{kind}"].server for kind in ("full", "part")}
SWA = {"rho": 0.1, "alpha": 1.5}
MOSWA = {**SWA, "gamma": 0.2}
TOGA = {"rho": 0.5, "alpha": 0.1, "beta": 0.9}
WMSAM = {"rho": 0.5, "a": 0.1, "lam": 0.01}
NSAM = {"lam": 0.85, "rho": 0.5}

CASES = {
    "fedexp/full": Case(
        twin="fedexp",
        settings={"eps": 1e-3},
        server=FEDAVG["full"],
        state={("eta", 0): 1.0, ("eta", 1): 1.0},
    ),
    "fednova/full": Case(twin="fednova", server=FEDAVG["full"]),
    "fednova/part": Case(twin="fednova", participation="part", server=FEDAVG["part"]),
    "fedinit/full": Case(
        twin="fedinit",
        settings={"beta": 0.1},
        server=[(2.355, 1.395), (1.8867375, 1.0402875)],
    ),
    "fedinit/part": Case(
        twin="fedinit",
        settings={"beta": 0.1},
        participation="part",
        server=[(2.28, 1.43), (1.78848, 1.13428), (1.47316992, 0.70481348)],
    ),
    "fedinit/start": Case(
        twin="fedinit",
        settings={"beta": 0.1, "origin": "start"},
        participation="part",
        server=[(2.28, 1.43), (1.86048, 1.19128), (1.56580992, 0.77947248)],
    ),
    "fedswa/full": Case(
        twin="fedswa",
        settings=SWA,
        server=[(2.231625, 1.264625), (1.71537305, 0.90511855)],
    ),
    "fedswa/part": Case(
        twin="fedswa",
        settings=SWA,
        participation="part",
        server=[(2.136, 1.32725), (1.657002, 1.0661045), (1.37317714, 0.60278057)],
    ),
    "fedmoswa/full": Case(
        twin="fedswa",
        settings=MOSWA,
        server=[(2.231625, 1.264625), (2.29565857, 1.43789738)],
        state={
            ("m", -1): (1.00246575, 0.86307752),
            ("c_k", -1, 0): (2.50525661, 2.26449523),
            ("c_k", -1, 1): (2.23165891, 1.30563486),
        },
    ),
    "fedmoswa/part": Case(
        twin="fedswa",
        settings=MOSWA,
        participation="part",
        server=[(2.136, 1.32725), (1.49033361, 0.95065192), (1.86490232, 1.01158408)],
        state={("m", -1): (1.02182463, 0.92900360)},
    ),
    "fednsam/full": Case(
        twin="fednsam",
        settings=NSAM,
        server=[(2.25105933, 1.26196613), (1.25963906, 0.62048294)],
    ),
    "fednsam/part": Case(
        twin="fednsam",
        settings=NSAM,
        participation="part",
        server=[(2.14086494, 1.37000484), (1.05190345, 1.00075562), (0.56293806, 0.29694534)],
    ),
    "fedgmt/full": Case(
        twin="fedgmt",
        settings={"beta": 10.0},
        server=[(1.71, 0.79), (0.50829, 0.00037)],
        state={("e", 0): (2.9355, 1.9395), ("e", 1): (2.8141395, 1.8425435)},
    ),
    "fedgmt/part": Case(
        twin="fedgmt",
        settings={"beta": 10.0},
        participation="part",
        server=[(1.92, 1.145), (1.0128, 0.7208), (0.482928, -0.084783)],
    ),
    "fedgmt/active": Case(
        twin="fedgmt",
        settings={"beta": 10.0, "dual": "active"},
        participation="part",
        server=[(1.56, 0.86), (0.9672, 1.0392), (0.296736, -0.284036)],
    ),
    "fedsol/full": Case(
        twin="fedsol",
        settings={"rho": 0.5},
        server=[(2.41, 1.49), (1.98412572, 1.17629275)],
    ),
    "fedsol/part": Case(
        twin="fedsol",
        settings={"rho": 0.5},
        participation="part",
        server=[(2.36, 1.46), (1.9510316, 1.28857311), (1.67257784, 0.89219724)],
    ),
    "fedtoga/full": Case(
        twin="fedtoga",
        settings=TOGA,
        server=[(1.51604268, 0.49028251), (0.03190071, -0.16645309)],
    ),
    "fedtoga/part": Case(
        twin="fedtoga",
        settings=TOGA,
        participation="part",
        server=[(1.71186079, 1.06401281), (0.54992121, 0.51277596), (0.19504047, -0.4391138)],
    ),
    "fedwmsam/full": Case(
        twin="fedwmsam",
        settings=WMSAM,
        server=[(2.92505, 1.92145), (2.7857027, 1.77746647), (2.59294983, 1.58248186)],
        state={
            ("a", -1): 0.1,
            ("D", -1): (0.96376434, 0.97492305),
            ("c", -1): (0.96376434, 0.97492305),
        },
    ),
    "fedwmsam/part": Case(
        twin="fedwmsam",
        settings=WMSAM,
        participation="part",
        server=[(2.9128, 1.9373), (2.76840989, 1.79343979), (2.56198825, 1.60300855)],
        state={("D", -1): (1.03210819, 0.9521562), ("c", -1): (0.75104173, 0.69509086)},
    ),
    "fedwmsam/plain": Case(
        twin="fedwmsam",
        settings={**WMSAM, "rho": 0.0},
        server=[(2.93055, 1.93095), (2.80112749, 1.80391861), (2.62198286, 1.63159539)],
    ),
}
