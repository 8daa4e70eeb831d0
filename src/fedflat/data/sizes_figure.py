"""The picture of clients whose examples have no classes: how many examples they have, and where
they are from, as in Figure 6.7 of Caldarola's thesis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fedflat.data.mask_samples import MaskSample, draw_masks, masks_height
from fedflat.plot_style import COLORS, PAGE, pyplot

BINS = 20
NAMED = 30
"""Most values of a facet that are drawn; the most frequent ones."""


def sizes_figure(
    sizes: Sequence[int],
    facets: Mapping[str, Sequence[str]],
    samples: Sequence[MaskSample] = (),
    names: Sequence[str] = (),
) -> Any:
    """Return a histogram of examples per client, and for each facet the clients of each value.

    sizes
        The number of examples of each client.
    facets
        For each facet its value at each client, such as the city.
    samples
        Images and masks below.
    names
        The names of the classes of the masks.
    """
    counts = {
        facet: Counter(values).most_common(NAMED)[::-1]
        for facet, values in facets.items()
        if len(set(values)) > 1
    }
    rows = max([8, *map(len, counts.values())])
    heights = [0.8 + 0.16 * rows, *([masks_height(samples)] if samples else [])]
    figure = pyplot().figure(figsize=(PAGE, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    axes = parts[0].subplots(1, 1 + len(counts), squeeze=False)
    if samples:
        draw_masks(parts[1], samples, names)
    first, *others = axes[0]
    first.hist(sizes, bins=min(BINS, max(sizes) - min(sizes) + 1), color=COLORS[0])
    first.set(xlabel="examples of a client", ylabel="clients")
    for axis, (facet, pairs) in zip(others, counts.items(), strict=True):
        axis.barh(range(len(pairs)), [count for _, count in pairs], color=COLORS[0])
        axis.set_yticks(range(len(pairs)), [value.replace("$", r"\$") for value, _ in pairs])
        axis.set(xlabel="clients", title=facet)
    for scale in (first.yaxis, *(axis.xaxis for axis in axes[0])):
        scale.get_major_locator().set_params(integer=True)
    return figure
