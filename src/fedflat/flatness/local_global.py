"""How sharp clients' models are on their own data, and on everybody's.

Caldarola et al., Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware Minimization for
Federated Learning, CVPR 2025, Table 1: for each client of the last cohort, the largest Hessian eigenvalue of
its model after its local steps, on its own examples and on the union of all training examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any

from fedflat.client.piece import Memory
from fedflat.client.visit import Letter, visit
from fedflat.data.examples import ClientData
from fedflat.flat import Model
from fedflat.flatness.curvature import Progress, Tell, unheard
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.objective import BATCH
from fedflat.flatness.spectrum import eigenvalues, steps_of
from fedflat.flatness.subsample import subset
from fedflat.mail import Mail, Replies, Reply, fold
from fedflat.runs.ready import Ready
from fedflat.server.piece import Desks, step

Remember = Callable[[int], Memory]
"""What a client remembers from its visits before."""


def forgetful(client: int) -> Memory:
    """Nothing: as before the first visit."""
    return {}


def client_models(
    ready: Ready, model: Model, round: int, cohort: Sequence[int], *, desks: Desks | None = None,
    memory: Remember = forgetful,
) -> dict[int, Model]:  # fmt: skip
    """Each client's model at the end of its visit in ``round``, as the method runs it from ``model``.

    ``desks`` and ``memory`` are what the server's pieces and the clients remember, for methods that do. Nothing
    of the run is changed.
    """
    exp, found = ready.exp, dict[int, Model]()

    def send(mail: Mail) -> Replies:
        weighting = exp.weighting or exp.method.weighting or "sized"
        rule = exp.method.rule.combine if exp.method.rule else None
        return fold(mail, visits(mail), population=ready.fed.population, weighting=weighting, rule=rule)

    def visits(mail: Mail) -> Iterator[Reply]:
        for client in cohort:
            reply, _ = visit(ready.job, Letter(client, mail, memory(client)), ready.fed.data(client))
            if mail.commit and mail.task == "train":
                found[client] = Model(mail.params - reply.delta, reply.buffers)
            yield reply

    step(exp.method.server, desks or {}, send, Mail(round, model.params, model.buffers, exp.rate(round)))
    return found


def local_global(
    ready: Ready, model: Model, round: int, cohort: Sequence[int], *, desks: Desks | None = None,
    memory: Remember = forgetful, examples: int | None = None, seed: int = 0, batch_size: int = BATCH,
    tell: Tell = unheard,
) -> dict[str, Any]:  # fmt: skip
    """Largest eigenvalues of the clients' models on their own data and on everybody's, or on ``examples`` of those."""
    everybody = ready.fed.pooled().data(0)
    used = everybody if examples is None else subset(everybody, examples, seed)
    models = client_models(ready, model, round, cohort, desks=desks, memory=memory)
    each, plan = steps_of(1) + 1, dict[str, float]()
    for client in models:
        plan[f"client {client}, own data"] = each * len(ready.fed.data(client)) / len(used)
        plan[f"client {client}, everybody's data"] = each
    progress = Progress(plan, tell)

    def top(what: str, model: Model, data: ClientData) -> float:
        with progress.part(what, weight=len(data) / len(used)):
            hessian = Hessian(ready.task, model, data, batch_size=batch_size, tick=progress.tick)
            return float(eigenvalues(hessian, 1, seed=seed).values[0])

    rows = [
        {
            "client": client,
            "local": top(f"client {client}, own data", own, ready.fed.data(client)),
            "global": top(f"client {client}, everybody's data", own, used),
        }
        for client, own in models.items()
    ]
    return {
        "round": round,
        "examples": len(used),
        "of": len(everybody),
        "clients": rows,
        "local": fmean(row["local"] for row in rows),
        "global": fmean(row["global"] for row in rows),
    }
