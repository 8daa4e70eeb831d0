"""The library in one call: ``run``, ``compare`` and ``resume``, with the settings of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.nn.functional import cross_entropy

from fedflat.client.local import Local, Orders
from fedflat.client.piece import LossFn
from fedflat.client.task import ModelLike
from fedflat.composition import Method
from fedflat.data.federation import DataSpec
from fedflat.data.opening import opened, opened_once
from fedflat.data.sampling import Sampler
from fedflat.errors import MOST_RUNS, SettingError, number, shown
from fedflat.plain import plain
from fedflat.profiling.profiled import Wanted
from fedflat.runs import study
from fedflat.runs.book import PAUSE
from fedflat.runs.experiment import Evaluate, Experiment, data_set, default_model
from fedflat.runs.headline import last_tenth
from fedflat.runs.progress import heard
from fedflat.runs.results import Result, Results
from fedflat.runs.study import How, Voice, run_many, run_one
from fedflat.schedules import Scalar
from fedflat.spelling import parse


def experiment(
    method: Method | str, on: DataSpec | str, *, rounds: int, model: ModelLike | str | None = None,
    clients_per_round: int = 10, sampler: str = "uniform", sampler_seed: str = "run",
    cohorts: Sequence[Sequence[int]] | None = None, local_epochs: int = 1, local_steps: int | None = None,
    batch_size: int = 64, lr: Scalar | str = 0.1, weight_decay: Scalar = 0.0, momentum: Scalar = 0.0,
    clip: Scalar | None = None, virtual: int | None = None, drop_last: bool = False, orders: Orders | None = None,
    eval_every: int | None = None, eval_last: int | None = None, seed: int = 0, weighting: str | None = None,
    dtype: str = "float32", layout: str = "auto", on_bad: str = "raise", loss: LossFn = cross_entropy,
) -> Experiment:  # fmt: skip
    """The experiment these settings say; methods, data, models and rates may be given as text.

    ``eval_every=None`` evaluates about a hundred times in the run. The headline is the mean over the evaluations of the
    last ``eval_last`` rounds, each of which has one; None: the last tenth of the rounds, at most a hundred.
    """
    number("run", "rounds", rounds, low=1, whole=True)
    on = data_set(on)
    eval_last = last_tenth(rounds) if eval_last is None else eval_last
    if model is None:
        model = default_model(opened(on, seed).shape)
    return Experiment(
        method=parse(method, "method") if isinstance(method, str) else method,
        on=on,
        model=parse(model, "model") if isinstance(model, str) else model,
        rounds=rounds,
        local=Local(
            epochs=local_epochs, steps=local_steps, batch_size=batch_size, weight_decay=weight_decay,
            lr=parse(lr, "schedule") if isinstance(lr, str) else lr, momentum=momentum, clip=clip,
            virtual=virtual, drop_last=drop_last, orders=orders,
        ),
        sampler=Sampler(clients=clients_per_round, kind=sampler, seeding=sampler_seed, cohorts=cohorts),
        evaluate=Evaluate(every=max(1, rounds // 100) if eval_every is None else eval_every, last=eval_last),
        seed=seed,
        weighting=weighting,
        dtype=dtype,
        layout=layout,
        on_bad=on_bad,
        loss=loss,
    )  # fmt: skip


@opened_once()
def run(
    method: Method | str, *, on: DataSpec | str, rounds: int, out: str | Path | None = None, executor: str = "auto",
    workers: int = 0, threads: int | None = None, device: str = "cpu", state_memory: int | None = None,
    watch: str | None = None, track: str | None = None, quiet: bool = False, voice: Voice | None = None,
    checkpoint_every: float = PAUSE, profile: Wanted = False, **settings: Any,
) -> Result:  # fmt: skip
    """Run one method once; ``settings`` are those of `experiment`.

    ``profile=True`` prints where the time went, and writes it into the run folder if there is one; a function in its
    place is given the `Profile`. ``watch`` names what to look at over the rounds ("drift,alignment,norms"), ``track``
    whom to tell ("tensorboard,wandb,mlflow"); both go into the run folder. Progress is told on standard error unless
    ``quiet``; a ``voice`` is told in its place.

    >>> from fedflat import digits, fedsam, lda
    >>> result = run(fedsam(rho=0.05), on=digits(lda(0), clients=20), rounds=2, clients_per_round=2, quiet=True)
    >>> result.status, result.rows[-1]["round"]
    ('done', 2)
    """
    how = How(
        executor=executor, workers=workers, threads=threads, device=device, state_memory=state_memory, watch=watch,
        track=track,
    )  # fmt: skip
    exp = experiment(method, on, rounds=rounds, **settings)
    folder = None if out is None else Path(out)
    with heard(voice, quiet=quiet) as told:
        return run_one(exp, how, folder, told, checkpoint_every=checkpoint_every, profile=profile)


@opened_once()
def compare(
    methods: Sequence[Method | str], *, on: DataSpec | str, rounds: int, seeds: int | Sequence[int] = 1,
    out: str | Path | None = None, executor: str = "auto", workers: int = 0, threads: int | None = None,
    device: str = "cpu", state_memory: int | None = None, watch: str | None = None, track: str | None = None,
    quiet: bool = False, voice: Voice | None = None, checkpoint_every: float = PAUSE, profile: Wanted = False,
    **settings: Any,
) -> Results:  # fmt: skip
    """Run several methods with the same seeds, clients and batches; the list of results prints as a table.

    ``seeds`` is how many (0, 1, ...), or which.
    """
    how = How(
        executor=executor, workers=workers, threads=threads, device=device, state_memory=state_memory, watch=watch,
        track=track,
    )  # fmt: skip
    each = experiments(methods, on, seeds, rounds=rounds, **settings)
    folder = None if out is None else Path(out)
    with heard(voice, quiet=quiet) as told:
        return Results(run_many(each, how, folder, told, checkpoint_every=checkpoint_every, profile=profile))


def resume(folder: str | Path, *, quiet: bool = False, voice: Voice | None = None, **settings: Any) -> Results:
    """Go on with the run or the study in ``folder``; what is done is read, what was never begun is begun.

    ``settings`` are those of `fedflat.runs.study.resume`: ``on``, ``model`` and ``loss`` if only Python can say them,
    ``checkpoint_every``, ``profile``, ``watch``, ``track``, ``until``.
    """
    with heard(voice, quiet=quiet) as told:
        return Results(study.resume(folder, voice=told, **settings))


def experiments(
    methods: Sequence[Method | str], on: DataSpec | str, seeds: int | Sequence[int], **settings: Any
) -> list[Experiment]:
    """Every method with every seed."""
    seeds = plain(seeds)
    if isinstance(seeds, int):
        number("compare", "seeds", seeds, low=1, high=MOST_RUNS, whole=True)
        seeds = range(seeds)
    if not isinstance(seeds, Sequence) or len(set(seeds)) < len(seeds) or not len(seeds):
        raise SettingError(
            f"compare: seeds must be how many, or a list of different ones, at least one, found {shown(seeds)}."
        )
    read = [parse(m, "method") if isinstance(m, str) else m for m in methods]
    if not read:
        raise SettingError("compare: no method was given. Name at least one, such as 'fedavg'.")
    twice = [repr(m) for i, m in enumerate(read) if m in read[:i]]
    if twice:
        raise SettingError(f"compare: {twice[0]} was given twice. Leave one of them out.")
    on = data_set(on)
    return [experiment(m, on, seed=seed, **settings) for m in read for seed in seeds]
