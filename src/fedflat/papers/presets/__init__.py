"""Runs of the papers' tables, each with the authors' settings and the number they report.

Settings and numbers of papers belong here, one module per paper. Running and comparing them belongs
in `fedflat.papers.reproduce`. Start reading at `preset.py`.

    find("eccv22/cifar100-alpha0.5-fedasam-swa").experiment(rounds=50)
    matching("fedgloss/cifar10")

A name is ``paper/column-method``. The column alone is the name of its main run. The ending
``-repo`` means that the run follows the released code where that differs from the paper. The
docstring of each paper's module explains the names of its tables, where the sources disagree, and
what is left out. `table_counts` has the number of cells of each table. Points of figures, whose
values are not printed, and stand-ins for data that only their authors have are presets without a
number.

A preset can also report the rounds to a target or the curvature of a run's model
(`fedflat.papers.presets.preset`). Its run is that of another cell, and `fedflat reproduce` makes it once.

Torch is imported only when the experiment of a preset is made.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from fedflat.errors import SpellingError, nearest
from fedflat.papers.presets.preset import Preset

PAPERS = (
    "eccv22",
    "fedgloss",
    "fedfsa",
    "man",
    "wima",
    "feddrive",
    "ladd",
    "attacks",
    "fedseq",
    "fedcg",
    "fedvpr",
    "flsam",
    "fedwmsam",
)

FURTHER = {"eccv22": ("eccv22_more",), "fedgloss": ("fedgloss_more",)}
"""Modules with more tables of a paper."""

__all__ = ["PAPERS", "Preset", "every", "find", "matching", "of_paper"]


@cache
def every() -> tuple[Preset, ...]:
    """Return all presets, by paper and column."""
    return tuple(preset for paper in PAPERS for preset in of_paper(paper))


@cache
def of_paper(paper: str) -> tuple[Preset, ...]:
    """Return the presets of one of the `PAPERS`, by column.

    >>> of_paper("man")[0].name
    'man/cifar100-delta0.3-fedavg'
    """
    return tuple(
        preset
        for module in (paper, *FURTHER.get(paper, ()))
        for preset in import_module(f"fedflat.papers.presets.{module}").presets()
    )


@cache
def _by_name() -> dict[str, Preset]:
    return {name: preset for preset in every() for name in (preset.column, preset.name) if name}


def find(name: str) -> Preset:
    """Return the preset of this name, or the main one of the column of this name.

    >>> find("man/cifar100-delta0.3").name, find("man/cifar100-delta0.3").reported
    ('man/cifar100-delta0.3-fedavg-man', 52.0)
    >>> find("man/cifar100-delta0.3-feddd")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fedflat.errors.SpellingError: unknown preset 'man/cifar100-delta0.3-feddd'. Did you mean ...
    """
    if name not in _by_name():
        raise SpellingError(
            f"unknown preset {name!r}.{nearest(name, _by_name())} `fedflat list presets` lists "
            "them all."
        )
    return _by_name()[name]


def matching(word: str) -> list[Preset]:
    """Return the presets whose name contains `word`. Raise `SpellingError` if there is none.

    >>> [preset.name for preset in matching("cifar10-cnn-alpha0-naive")][0]
    'fedgloss/cifar10-cnn-alpha0-naive-fedgloss'
    """
    presets = [preset for preset in every() if word in preset.name or word == preset.column]
    if not presets:
        raise SpellingError(
            f"no preset has {word!r} in its name.{nearest(word, _by_name())} "
            "`fedflat list presets` lists them all."
        )
    return presets
