from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflat import by_user, from_file, quantity_skew
from fedflat.data.partitions.iid import apportion
from fedflat.errors import DataError, SettingError
from fedflat.registry.specs import parse

LABELS = np.arange(12) % 3


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(
    st.integers(1, 20),
    st.integers(1, 5),
    st.integers(0, 100),
    st.floats(0, 5),
    st.sampled_from(["lognormal", "dirichlet"]),
    st.integers(0, 50),
)
def test_quantity_skew_uses_every_example_and_keeps_the_least(
    clients, least, extra, sigma, kind, seed
):
    examples = clients * least + extra
    parts = quantity_skew(sigma, kind, least).assign(
        np.zeros(examples, np.int64), clients, rng(seed)
    )
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(examples))
    assert len(parts) == clients
    assert min(map(len, parts)) >= least


def test_quantity_skew_zero_is_even():
    sizes = [len(part) for part in quantity_skew(0).assign(np.zeros(1003, np.int64), 10, rng())]
    assert sorted(sizes) == [100] * 7 + [101] * 3


@pytest.mark.parametrize("sigma", [0.3, 0.8])
def test_quantity_skew_spreads_sizes_as_specified(sigma):
    labels = np.zeros(200_000, np.int64)
    sizes = np.array(
        [len(part) for part in quantity_skew(sigma, min_size=1).assign(labels, 1000, rng())]
    )
    assert np.log(sizes).std() == pytest.approx(sigma, rel=0.1)
    sizes = np.array(
        [len(p) for p in quantity_skew(sigma, "dirichlet", 1).assign(labels, 1000, rng())]
    )
    assert sizes.std() / sizes.mean() == pytest.approx(sigma, rel=0.1)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.integers(0, 5), st.integers(0, 200))
def test_apportion(shares, least, extra):
    total = least * len(shares) + extra
    if sum(shares) == 0:
        shares = [1.0] * len(shares)
    sizes = apportion(np.array(shares), total, least)
    assert sizes.sum() == total
    assert (sizes >= least).all()


def test_quantity_skew_refuses():
    with pytest.raises(SettingError, match="sigma"):
        quantity_skew(-1)
    with pytest.raises(SettingError, match="Did you mean 'lognormal'"):
        quantity_skew(kind="log_normal")
    with pytest.raises(SettingError, match="min_size"):
        quantity_skew(min_size=0)
    with pytest.raises(SettingError, match="5 clients need at least 50 examples, found 12"):
        quantity_skew().assign(LABELS, 5, rng())


def test_by_user_groups_by_owner():
    users = np.array([7, 3, 7, 3, 3, 9])
    parts = by_user().assign(np.zeros(6, np.int64), 100, rng(), users=users)
    assert [part.tolist() for part in parts] == [[1, 3, 4], [0, 2], [5]]


def test_by_user_needs_owners():
    with pytest.raises(SettingError, match="have no owners"):
        by_user().assign(LABELS, 3, rng())
    with pytest.raises(SettingError, match="each of the 12 examples, found 2"):
        by_user().assign(LABELS, 3, rng(), users=np.array([1, 2]))


def write(path: Path, what: object) -> str:
    path.write_text(json.dumps(what))
    return str(path)


@pytest.mark.parametrize(
    "what",
    [
        [[3, 0], [1], [0, 2]],
        {"2": [0, 2], "0": [3, 0], "1": [1]},
        {"ann": [3, 0], "bob": [1], "cy": [0, 2]},
        {
            "users": [2, 0, 1],
            "user_data": {
                "2": {"x": ["img_0_label_0.png", "img_2_label_2.png"]},
                "0": {"x": ["img_3_label_0.png", "img_0_label_0.png"], "y": [0, 0]},
                "1": {"x": ["img_1_label_1.png"]},
            },
        },
    ],
)
def test_from_file_takes_lists_objects_and_released_splits(tmp_path, what):
    parts = from_file(write(tmp_path / "split.json", what)).assign(LABELS, 3, rng())
    assert [part.tolist() for part in parts] == [[3, 0], [1], [0, 2]]
    assert parts[0].dtype == np.int64


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ([[0], []], "client '1' must have a list of at least one position"),
        ([[0], 5], "client '1' must have a list"),
        ([[0], [1.5]], "whole numbers, found 1.5"),
        ([[0], [True]], "whole numbers, found True"),
        ([[0], [12]], "from 0 to 11, found 12"),
        ([[0], [-1]], "from 0 to 11, found -1"),
        ("text", "must hold a list of lists of positions, found str"),
        ([["img_1_label_1.png"], ["img_4_label_2.png"]], "label it has in this data set, 1"),
        (
            [["img_1_label_1.png"], ["cat.png"]],
            "must look like 'img_17_label_6.png', found 'cat.png'",
        ),
        ([["img_1_label_1.png"], ["img_99_label_1.png"]], "from 0 to 11, found 99"),
        ([["img_1_label_1.png"], ["img_1_label_1.png", 3]], "must look like"),
    ],
)
def test_from_file_refuses_damaged_lists(tmp_path, what, message):
    with pytest.raises(DataError, match=message):
        from_file(write(tmp_path / "split.json", what)).assign(LABELS, 2, rng())


def test_from_file_refuses_what_it_cannot_read(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*No such file"):
        from_file(str(tmp_path / "none.json")).assign(LABELS, 2, rng())
    (tmp_path / "bad.json").write_text("[[1,")
    with pytest.raises(DataError, match="is not JSON"):
        from_file(str(tmp_path / "bad.json")).assign(LABELS, 2, rng())
    with pytest.raises(SettingError, match=r"has 1 clients, not 2. Set clients=1"):
        from_file(write(tmp_path / "one.json", [[0]])).assign(LABELS, 2, rng())


@pytest.mark.parametrize(
    "text",
    [
        "quantity_skew()",
        "quantity_skew(sigma=0.5, min_size=2)",
        "by_user()",
        "from_file('a b.json')",
    ],
)
def test_its_text_is_printed_again(text):
    assert repr(parse(text, "partition")) == text
