"""The lists of public names that are made from the registered ones."""

from __future__ import annotations

import fedflat
from fedflat import public

STALE = "run `python -m fedflat.public`"


def test_every_name_in_texts_is_listed() -> None:
    assert public.EXPORTS.read_text() == public.exports_text(), STALE


def test_type_checkers_see_every_public_name() -> None:
    assert public.STUB.read_text() == public.stub(), STALE
    names = [line.split()[-1] for line in public.stub().splitlines() if line.startswith("from ")]
    assert sorted(names) == sorted(fedflat.__all__)


def test_no_name_in_texts_is_listed_by_hand() -> None:
    by_hand = [name for names in fedflat._HOMES.values() for name in names]
    assert not set(by_hand) & set(public.EXPORTS.read_text().split('"'))
