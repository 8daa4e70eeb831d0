"""The table as a page of Markdown, computed from the files of the cells in a folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fedflat.papers.equal_work.cell_run import read_cells
from fedflat.papers.equal_work.grid import (
    COLUMNS,
    METHODS,
    NAME,
    SEEDS,
    TRIAL_SEED,
    VALIDATION_SHARE,
    Cell,
)

T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""The 97.5 % quantile of Student's t distribution, by the number of differences."""
HEADS = (
    "method", "chosen", "equal gradients %", "minus FedAvg", "equal bytes %", "equal rounds %",
    "rounds to target", "MB to target", "lambda_1", "lambda_1 norm²", "drift",
)  # fmt: skip
BASELINE = "fedavg"
EDGE = "(edge)"


def page(folder: Path) -> str:
    found = read_cells(folder)
    parts = ["# Methods under equal work", INTRODUCTION]
    for name in COLUMNS:
        parts += _column(name, found)
    missing = [cell for cell in _all_cells() if cell.name not in found]
    parts += ["## Missing cells", _missing(missing)] if missing else []
    return "\n\n".join([*parts, ADDING, "## Grid", _grid()]) + "\n"


def score(seed: dict[str, Any], end: int, window: int) -> float | None:
    """The mean accuracy of the evaluations in the last rounds up to a reading; None: diverged."""
    if seed["diverged"] and (not seed["curve"] or seed["curve"][-1][0] < end):
        return None
    return float(mean(point[1] for point in seed["curve"] if end - window < point[0] <= end))


def difference(ours: Sequence[float | None], theirs: Sequence[float | None]) -> str:
    """The mean of the paired differences and its 95 % interval; empty if a run diverged."""
    pairs = [
        one - other
        for one, other in zip(ours, theirs, strict=False)
        if one is not None and other is not None
    ]
    if len(pairs) < max(2, len(ours)):
        return ""
    half = T_95[len(pairs)] * stdev(pairs) / math.sqrt(len(pairs))
    middle = mean(pairs)
    return f"{middle:+.2f} [{middle - half:+.2f}, {middle + half:+.2f}]"


def _column(name: str, found: dict[str, dict[str, Any]]) -> list[str]:
    rows = [Cell(name, row) for row in METHODS if f"{name}-{row}" in found]
    if not rows:
        return []
    column = COLUMNS[name]
    base = found.get(f"{name}-{BASELINE}")
    lines = [_line(cell, found[cell.name], base) for cell in rows]
    about = (
        f"{len(column.rates)} trials; {column.rounds} rounds of FedAvg's gradients; scores are "
        f"means of the evaluations in {column.window} rounds; the target is {column.target:g} %. "
        f"`{column.settings['on']}`, {_settings(column.settings)}."
    )
    return [f"## {column.title}", about, _markdown(HEADS, lines)]


def _line(cell: Cell, content: dict[str, Any], base: dict[str, Any] | None) -> list[str]:
    if content["chosen"] is None:
        return [f"`{cell.row}`", "all trials diverged", *["X"] * (len(HEADS) - 2)]
    trial, seeds = content["trials"][content["chosen"]], content["seeds"]
    window = cell.column.window
    scores = {
        reading: [score(seed, end, window) for seed in seeds]
        for reading, end in cell.readings.items()
    }
    other = ""
    if base is not None and base["seeds"] and cell.row != BASELINE:
        theirs = [score(seed, cell.column.rounds, window) for seed in base["seeds"]]
        other = difference(scores["gradients"], theirs)
    scaled = [
        None if seed["lambda_1"] is None else seed["lambda_1"] * seed["norm"] ** 2 for seed in seeds
    ]
    at = {reading: f" ({end})" for reading, end in cell.readings.items()}
    return [
        f"`{cell.row}`",
        f"`{trial['method']}`, lr {trial['lr']:g}"
        + (f" {EDGE}" if trial["lr"] in (cell.rates[0], cell.rates[-1]) else ""),
        _spread(scores["gradients"], "X") + at["gradients"],
        other,
        _spread(scores["bytes"], "X") + at["bytes"],
        _spread(scores["rounds"], "X"),
        *_to_target(seeds, cell.column.target),
        _spread([seed["lambda_1"] for seed in seeds], "-", ".3g"),
        _spread(scaled, "-", ".3g"),
        _spread([seed["drift"] for seed in seeds], "-", ".3g"),
    ]


def _to_target(seeds: Iterable[dict[str, Any]], target: float) -> list[str]:
    reached = [
        next((point for point in seed["curve"] if point[1] >= target), None) for seed in seeds
    ]
    if any(point is None for point in reached):
        return ["-", "-"]
    points = [point for point in reached if point is not None]
    return [
        f"{mean(point[0] for point in points):.0f}",
        f"{mean(point[2] for point in points) / 1e6:.1f}",
    ]


def _spread(values: Sequence[float | None], none: str, form: str = ".2f") -> str:
    """Mean ± standard deviation, or a sign if a value is missing."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return none
    return f"{mean(known):{form}} ± {stdev(known):{'.2g' if form == '.3g' else form}}"


def _settings(settings: Any) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items() if key != "on")


def _all_cells() -> list[Cell]:
    return [Cell(column, row) for column in COLUMNS for row in METHODS]


def _missing(missing: Sequence[Cell]) -> str:
    lines = []
    for name, column in COLUMNS.items():
        rows = [f"`{cell.row}`" for cell in missing if cell.column_name == name]
        if rows:
            every = "all methods" if len(rows) == len(METHODS) else ", ".join(rows)
            lines.append(f"* {column.title} (`{name}-...`): {every}")
    return "These cells were not run yet:\n\n" + "\n".join(lines)


def _grid() -> str:
    rates: Callable[[Cell], str] = lambda cell: ", ".join(f"{rate:g}" for rate in cell.rates)  # noqa: E731
    lines = []
    for row, method in METHODS.items():
        cell = Cell(next(iter(COLUMNS)), row)
        lines.append([f"`{row}`", f"`{method}`", f"{cell.gradients:g}", f"{cell.traffic:g}"])
    own = [
        f"* {column.title}: lr {rates(Cell(name, BASELINE))}; of methods with values of their own "
        f"{rates(Cell(name, 'fedsam'))}"
        for name, column in COLUMNS.items()
    ]
    heads = ("row", "method and values", "gradients per step", "bytes per round")
    return _markdown(heads, lines) + "\n\n" + "\n".join(own)


def _markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    marks = ["---" if place < 2 else "---:" for place in range(len(heads))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, marks, *lines])


INTRODUCTION = f"""\
This page is generated from the files in `results/equal-gradients` by `python docs/leaderboard.py`. All methods of a
column have the same budget of gradients: a method with two gradients per step has half the rounds.

* **Tuning.** All methods of a column have equally many trials from the grid below, with seed {TRIAL_SEED}, for the
  rounds of equal gradients. A validation set of {VALIDATION_SHARE:.0%} of each client's examples chooses one. The test
  set chooses nothing.
* **Seeds.** The chosen setting is run with seeds {", ".join(map(str, SEEDS))}. ± is the standard deviation over these
  n = {len(SEEDS)} runs.
* **Readings.** All scores of a row come from the same three curves, read after the rounds in brackets: where the
  method has used FedAvg's gradients, FedAvg's bytes, and FedAvg's rounds.
* **Minus FedAvg.** The mean of the differences at equal gradients, seed by seed, with its 95 % interval from Student's
  t distribution (n = {len(SEEDS)}). Clients and first weights of a seed are the same for all methods. There is no
  correction for the number of methods.
* **To target.** Rounds and traffic of all clients until the first evaluation that reaches the target; `-`: a seed does
  not reach it. Models are evaluated every few rounds, and in every round before the readings of equal gradients and
  equal rounds.
* **Flatness.** lambda_1 is the largest Hessian eigenvalue of the evaluated model at equal gradients on 1,000 test
  examples (all if there are fewer); beside it, times the squared norm of the parameters. Drift is the mean distance of
  clients' models from the model they were sent, in the rounds of the reading.
* **X** means that a run diverged.

## Limits of this table

* The scale is small: few rounds, few trials, three seeds. The table shows which methods are fast at this budget.
  It does not show which method is best after the many rounds of the papers' tables.
* Gradients are counted, not time. FedGMT, FedNTD and FedSOL have one more forward pass per step, which is not counted.
* A method with an argument of its own has two values of it and half of the learning rates. A row whose choice is the
  largest or smallest rate of its grid may be better outside it; {EDGE} marks it. Arguments that the grid does not show
  have fedflat's defaults.
* The weight of FedSpeed's dual variable is its default, `lam=100`. FedDyn chooses between 10 and 100 (`alpha` of 0.1
  and 0.01), and the other methods with dual variables have 10. In one trial on digits (learning rate 0.1, `rho=0.2`)
  `lam=10` has a validation score of 64.2 % instead of 59.1 %.
* Digits have their third grid. The first two had four trials, and two rates for methods with an argument. With both,
  FedAvg chose a rate which these methods did not have (0.2, then 0.4), so the differences compared two rates. The third
  grid removes that cause: eight trials, and the same largest rate for all. It was fixed before any of its cells was
  run, and every cell was run again. Test scores of the earlier grids had been printed by then.
* Fashion-MNIST has its third grid, too. The second had four trials and the rates 0.1 and 0.2 for methods with an
  argument. The third was fixed when nearly all test scores of the second were known. For 20 of the 23 methods the
  validation set chooses the same setting in both. FedCM, MoFedSAM and FedWMSAM choose the rate 0.4, the largest, which
  they did not have before; their scores at equal gradients change by +0.90, -0.15 and +1.37 points. The cells of the
  second grid are in the history of the repository.
* Bytes are those that fedflat sends. FedWMSAM's paper keeps the control variates at the server, which needs 1.5 times
  FedAvg's bytes; here clients keep them. FedInit sends the initial model in every round, for clients who are new.
* The model of FedInit on digits has a norm of more than 10,000; its small lambda_1 goes with that norm and does not
  show a flat minimum. A client was last selected 20 rounds ago on average and moves its start by `beta` times the
  change since then, so with `beta=0.1` the start moves twice as far as the model moves per round, and the movement
  grows. From round 100 to round 200 the distance from the initial model grows 82-fold if all clients move by the same
  constant. With seed 0 the norm grows 73-fold, from 197 to 14,472; FedAvg's is 10.6 in the end.
* The budgets of CIFAR-10 and Shakespeare were reduced, before any cell of them was run, to what one processor core
  computes in about an hour per cell. The rates of Shakespeare were moved up twice, from 0.15 to 2.0
  and from 0.5 to 4.0, because the validation score of FedAvg was highest at the largest rate (25.9 %, then 30.2 %). No
  test score had been printed. FedAvg now chooses 12.0, where one of its three seeds falls to about 14 %. With 6.0 its
  validation score is 0.3 points lower."""

ADDING = f"""\
## Add a cell

```sh
fedflat reproduce {NAME} --list                                  # the grid and the budgets
fedflat reproduce {NAME} --cells digits-fedsam --out runs/equal  # one cell; the same command continues it
fedflat reproduce {NAME} --table --out runs/equal                # check the cells of a folder, print this page
python docs/leaderboard.py                                       # write this page
```

Before the last command, copy the file of the cell, `runs/equal/digits-fedsam.json`, to `results/equal-gradients`.

The file of a cell has a digest of its content and one of grid, data and budget. A file is refused if it was edited by
hand, was made for another grid, or has other trials or another choice than that of the validation set. It also has the
digest of each final model: whoever runs the cell again with the same version of PyTorch on the same kind of processor
can compare. The digest does not prove that the numbers were computed. The runs of FedAvg, FedAvg with WiMA and FedGMT
on digits that the second and the third grid share were made twice, at two commits: curves, validation scores and
models are equal to the last bit. So are those of FedAvg, FedSAM, SCAFFOLD, FedGMT and FedDyn that the second and the
third grid of Fashion-MNIST share. So are the models of FedAvg with WiMA, FedSWA, FedLESAM, FedGloSS, FedASAM and
FedMoSWA on Fashion-MNIST, which were made on another machine of this kind. Nine other cells of Fashion-MNIST continue
the runs of the second grid, so what they share was run once."""
