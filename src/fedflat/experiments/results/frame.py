"""Evaluations of runs as a pandas DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedflat.errors import SettingError
from fedflat.experiments.results.run_settings import method_columns

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result


def data_frame(results: Iterable[Result]) -> Any:
    """Every evaluation of every run as a row: see `Results.frame`."""
    try:
        pandas: Any = import_module("pandas")
    except ImportError:
        raise SettingError(
            "frame() makes a pandas DataFrame, and pandas is not installed here. Install it "
            "(pip install pandas), or take the evaluations as a list of dicts: result.rows."
        ) from None
    return pandas.DataFrame(
        [
            {
                "method": one.method,
                "seed": one.seed,
                **one.settings,
                **method_columns(one.method),
                **flat_row(row),
            }
            for one in results
            for row in one.rows
        ]
    )


def flat_row(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A row with names such as ``models.server.accuracy`` for what lies deeper."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= (
            flat_row(value, f"{before}{name}.")
            if isinstance(value, Mapping)
            else {f"{before}{name}": value}
        )
    return flat
