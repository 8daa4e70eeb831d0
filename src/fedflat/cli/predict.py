"""Predictions of images, for ``fedflat predict``."""

from __future__ import annotations

import csv
import json
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedflat.analysis.loaded_run import LoadedRun
from fedflat.analysis.predict import IDS, MASK, OVERLAY, Prediction, Predictor, pictures
from fedflat.data.files.pictures import png
from fedflat.errors import FedflatError, RunError, SettingError, nearest, printable, shown
from fedflat.experiments.predictions import predict as predict_rows
from fedflat.experiments.run_folder.load import refuse_without_module
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_folder.study_file import is_run
from fedflat.files import unwritable, write_file
from fedflat.kernels.allocator import keep_memory
from fedflat.registry.plugins import load_plugin, loaded_module


def own_module(text: str | None) -> Any:
    """The class, function or module that a text names; None if there is no text.

    The file is executed, so it must be one that the user trusts. Run folders never name one.
    """
    if text is None:
        return None
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise SettingError(
            f"--module must be FILE:NAME or PACKAGE:NAME, such as nets.py:Net, found {shown(text)}."
        )
    load_plugin(place)
    home = loaded_module(place)
    if not hasattr(home, name):
        known = [other for other in vars(home) if not other.startswith("_")]
        raise SettingError(f"--module: {place} has no {name!r}.{nearest(name, known)}")
    found = getattr(home, name)
    if not callable(found):
        raise SettingError(
            f"--module: {name!r} of {place} must be a module or make one, found {shown(found)}."
        )
    return found


LISTED = 4
"""The number of classes that the line of a mask names."""


def predict(args: Namespace) -> int:
    """Predict images, write their masks, and print a line for each; 2 if one of them could not be
    read."""
    keep_memory()
    folder = Path(args.folder)
    if not is_run(folder):
        raise RunError(
            f"{folder} is not a run folder: it has no run.json. Use the folder of a run."
        )
    module = own_module(args.module)
    refuse_without_module(folder, read_record(folder), module)
    if needs_no_data(folder, args.images):
        return predict_examples(args, module)
    places = list(pictures([Path(one) for one in args.images]))
    out = None if args.out is None else Path(args.out)
    _refuse_twice(places, out)
    eye = Predictor(LoadedRun(folder, module), args.model, args.size, args.max_pixels)
    if eye.segments:
        _refuse_existing(places, out, args.overwrite)
    for sentence in filter(None, [eye.loaded.unfinished]):
        print(printable(sentence), file=sys.stderr)
    rows, trouble = [], 0
    for path in places:
        try:
            row = _row(eye, eye.look(path), out)
        except FedflatError as error:
            print(f"fedflat: error: {printable(str(error))}", file=sys.stderr)
            trouble = 2
            continue
        rows.append(row)
        if args.style == "text":
            print(printable(_line(row)), flush=True)
    if args.style != "text":
        _STYLES[args.style](rows)
    return trouble


def needs_no_data(folder: Path, inputs: Sequence[str]) -> bool:
    """Whether examples are predicted by what the run folder records alone.

    That is so for rows of a CSV file, and for runs whose data or loss were given in Python.
    """
    if len(inputs) == 1 and inputs[0].lower().endswith(".csv"):
        return True
    record = read_record(folder)
    task = record.experiment.task
    return bool({"on", "loss"} & set(record.experiment.only_in_python)) and "segm" not in task


def predict_examples(args: Namespace, module: Any) -> int:
    """Predict the rows of a CSV file, or images for which the run folder records enough."""
    csv_file = args.images[0].lower().endswith(".csv")
    places = [] if csv_file else list(pictures([Path(one) for one in args.images]))
    given: Any = args.images[0] if csv_file else places
    found = predict_rows(args.folder, given, model=args.model, module=module)
    rows = found.rows()
    for place, row in enumerate(rows):
        rows[place] = _source(row.pop("row"), places) | row
    if args.style != "text":
        _STYLES[args.style](rows)
        return 0
    for place, one in enumerate(found):
        (name, value), *_ = _source(place, places).items()
        print(printable(f"{f'{name} ' if csv_file else ''}{value}: {one}"))
    return 0


def _source(place: int, images: Sequence[Path]) -> dict[str, Any]:
    """The image of an example, or its row in a CSV file, whose first row has the names."""
    return {"image": str(images[place])} if images else {"row": place + 2}


def _row(eye: Predictor, seen: Prediction, out: Path | None) -> dict[str, Any]:
    """The result for an image; its masks are written."""
    shares = {name: round(share, 6) for name, share in seen.shares.items()}
    if seen.ids is None:
        place = eye.names.index(seen.first)
        return {
            "image": str(seen.path),
            "class": seen.first,
            "number": place,
            "probability": shares[seen.first],
        }
    ids, mask, overlay = _files(seen.path, out)
    where = ids.parent
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(where, error) from error
    write_file(ids, png(seen.ids))
    write_file(mask, png(seen.ids, eye.colours))
    write_file(overlay, png(eye.overlay(seen)))
    return {
        "image": str(seen.path),
        "ids": str(ids),
        "mask": str(mask),
        "overlay": str(overlay),
        "confidence": round(seen.confidence, 6),
        "classes": shares,
    }


def _refuse_twice(places: Sequence[Path], out: Path | None) -> None:
    """Refuse images whose masks would be the same files."""
    taken: dict[Path, Path] = {}
    for path in dict.fromkeys(places):
        place = (path.parent if out is None else out) / path.stem
        if place in taken:
            raise SettingError(
                f"the masks of {taken[place]} and {path} would both be {place}{MASK}. Predict them "
                "separately, into different folders (--out)."
            )
        taken[place] = path


def _files(path: Path, out: Path | None) -> tuple[Path, Path, Path]:
    """The files of an image's mask: class numbers, colours, and colours on the image."""
    place = path.parent if out is None else out
    ids, mask, overlay = (place / f"{path.stem}{ending}" for ending in (IDS, MASK, OVERLAY))
    return ids, mask, overlay


def _refuse_existing(places: Sequence[Path], out: Path | None, overwrite: bool) -> None:
    """Refuse to replace existing files unless the user allows it, and the images in any case."""
    files = [file for path in places for file in _files(path, out)]
    given = {path.resolve() for path in places}
    lost = [file for file in files if file.resolve() in given]
    if lost:
        raise SettingError(
            f"the mask {lost[0]} would replace an image to predict. Write to another folder "
            "(--out)."
        )
    existing = [file for file in files if os.path.lexists(file)]
    if existing and not overwrite:
        raise SettingError(
            f"{len(existing)} of the {len(files)} files to write exist, the first is "
            f"{existing[0]}. Nothing was predicted. Write to another folder (--out), or replace "
            "them (--overwrite)."
        )


def _line(row: dict[str, Any]) -> str:
    if "class" in row:
        return f"{row['image']}: {row['class']} ({100 * row['probability']:.1f} %)"
    shares = [f"{name} {100 * share:.1f} %" for name, share in row["classes"].items()]
    more = f" and {len(shares) - LISTED} more" if len(shares) > LISTED else ""
    sure = f"{100 * row['confidence']:.0f} %"
    return f"{row['mask']}: {', '.join(shares[:LISTED])}{more} (mean confidence {sure})"


def _csv(rows: Sequence[dict[str, Any]]) -> None:
    """A line for each image; for masks, a column for each class that occurs."""
    flat = [{**row, **row["classes"]} if "classes" in row else row for row in rows]
    names = dict.fromkeys(name for row in flat for name in row if name != "classes")
    writer = csv.DictWriter(
        sys.stdout, list(names), restval=0, extrasaction="ignore", lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(flat)


def _json(rows: Sequence[dict[str, Any]]) -> None:
    print(json.dumps(rows, indent=1))


_STYLES = {"csv": _csv, "json": _json}
