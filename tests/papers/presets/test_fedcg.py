"""FedCG's presets: one for each row of the thesis' three tables, and what the rows mean."""

from __future__ import annotations

from collections import Counter

import pytest

from fedflat.papers.presets import find, matching
from fedflat.registry.specs import parse


def test_every_row_has_a_run() -> None:
    tables = Counter(preset.table for preset in matching("fedcg/"))
    assert tables == {
        "Table 5.9": 9,
        "Table 5.10": 16,
        "Table 5.11": 5,
    }


@pytest.mark.parametrize(
    ("name", "method", "reported"),
    [
        ("celeba-oracle-separate", "domain_models(domains=32)", 33.61),
        (
            "celeba-oracle-gcn-hamming",
            "fedcg(32, 'oracle', 'all', False, 'off', False, 'hamming')",
            82.10,
        ),
        (
            "celeba-oracle-fedcg-hamming-w-relu",
            "fedcg(32, 'oracle', 'all', adjacency='hamming')",
            89.57,
        ),
        ("celeba-found-all-eye-kmeans3-hard", "fedcg(3, 'kmeans', 'all', test='hard')", 87.97),
        (
            "celeba-found-all-rand-clf2-hard",
            "fedcg(2, layers='all', start='rand', test='hard')",
            88.73,
        ),
        ("celeba", "fedcg(4)", 89.18),
        ("femnist", "fedcg(4)", 83.41),
        ("femnist-found-scaffold", "scaffold()", 84.20),
    ],
)
def test_some_rows(name: str, method: str, reported: float) -> None:
    preset = find(f"fedcg/{name}")
    assert parse(preset.method, "method") == parse(method, "method")
    assert preset.reported == reported


def test_every_method_can_be_made() -> None:
    for preset in matching("fedcg/"):
        parse(preset.method, "method")
        parse(preset.on, "data set")
        parse(preset.model, "model")
