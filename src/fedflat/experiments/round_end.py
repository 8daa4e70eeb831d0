"""Functions of the user that are called after every round, and may stop the run.

def good_enough(end: ff.RoundEnd) -> bool:
    return end.row.get("accuracy", 0) > 0.9

ff.run("fedavg", on="digits(lda(0))", rounds=500, on_round_end=good_enough)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedflat.errors import SettingError
from fedflat.experiments.run_folder.jsonl_log import Row

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class RoundEnd:
    """A round that has been computed, as `on_round_end` functions see it."""

    round: int
    """Rounds that are done, this one included."""
    rounds: int
    """Rounds of the run."""
    method: str
    """The text of the method."""
    seed: int
    """The seed of the run."""
    train_loss: float
    """The mean training loss of the round's clients."""
    row: Row
    """The evaluation after this round; empty if the round is not evaluated."""
    rows: Sequence[Row]
    """The evaluations of the rounds before."""
    source: Callable[[str | None], nn.Module]
    """Returns a model of the run as a module; see `module`."""

    def module(self, model: str | None = None) -> nn.Module:
        """A copy of the model that the run reports, or of another one by name, after this round.

        model
            Its name, such as "server" beside "swa".
        """
        return self.source(model)


OnRoundEnd = Callable[[RoundEnd], bool | None] | Sequence[Callable[[RoundEnd], bool | None]]
"""A function that is called after every round, or several. One that returns True stops the run."""


def functions_of(given: OnRoundEnd | None) -> tuple[Callable[[RoundEnd], bool | None], ...]:
    """The functions in order; an error if one is not a function."""
    if given is None:
        return ()
    found = (given,) if callable(given) else tuple(given) if isinstance(given, Sequence) else given
    if not isinstance(found, tuple) or isinstance(given, str) or not all(map(callable, found)):
        raise SettingError(
            f"run: on_round_end must be a function of a RoundEnd, or a list of them, found {given!r}."
        )
    return found


def names_of(given: OnRoundEnd | None) -> str | None:
    """The names of the functions, for run.json; None if there are none.

    >>> names_of(len), names_of([]), names_of([len, max])
    ('len', None, 'len, max')
    """
    names = (getattr(one, "__qualname__", type(one).__qualname__) for one in functions_of(given))
    return ", ".join(names) or None


def wants_stop(functions: Sequence[Callable[[RoundEnd], bool | None]], end: RoundEnd) -> bool:
    """Call every function; whether one of them stops the run."""
    answers = [one(end) for one in functions]
    for function, answer in zip(functions, answers, strict=True):
        if answer not in (None, True, False):
            raise SettingError(
                f"on_round_end: {names_of(function)} must return True to stop the run, or False or "
                f"nothing to continue, found {answer!r:.100}."
            )
    return any(answers)
