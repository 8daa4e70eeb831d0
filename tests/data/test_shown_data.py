"""The pictures of data sets whose examples have no classes: sizes, domains, images with masks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedflat as ff
from fedflat.data.figures import palette

STREET = "street(towns=2, clients=9, examples=2, tests=4, width=64, height=32)"


def test_of_masks_images_of_clients_are_drawn() -> None:
    """Six clients at most, evenly spaced; each pixel of a mask has the colour of its class."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    spec = ff.parse(STREET, "data set")
    figure = spec.show().figure().figure
    images = [axis for axis in figure.axes if axis.images]
    titles = [axis.get_title() for axis in images[:5]]
    assert titles == [f"client {client}" for client in (0, 2, 4, 6, 8)]
    assert len(images) == 10
    federation = spec.open(0)
    mask = federation.data(2).examples.raw(torch.tensor([0])).targets[0].numpy()
    names = spec.class_names()
    drawn = np.asarray(images[6].images[0].get_array())
    assert np.array_equal(drawn, palette(names, len(names))[mask])
    shown = {text.get_text() for text in figure.subfigs[1].legends[0].get_texts()}
    assert {names[kind] for kind in np.unique(mask[mask < 255])} <= shown <= set(names)
    assert spec.show()._repr_png_().startswith(b"\x89PNG")


def test_without_masks_there_are_no_images() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    figure = ff.parse("diabetes()", "data set").show().figure().figure
    assert not any(len(axis.images) for axis in figure.axes)
