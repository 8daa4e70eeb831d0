"""Records in a file: they are read as written, free space is reused, and nothing in use is
overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat.errors import RunError
from fedflat.execution.spill import Spill
from fedflat.files import Damaged


def test_room_is_used_again() -> None:
    file = Spill()
    a, b, c = (file.write(bytes([request]) * 10) for request in b"abc")
    assert file.nbytes == 30
    file.free(b)
    d = file.write(b"d" * 4)  # into the gap, of which six bytes are left
    e = file.write(b"e" * 6)
    assert (d.offset, e.offset, file.nbytes) == (10, 14, 30)
    f = file.write(b"f" * 1)  # nothing is free
    assert (f.offset, file.nbytes) == (30, 31)
    assert [file.read(place)[:1] for place in (a, c, d, e, f)] == [b"a", b"c", b"d", b"e", b"f"]
    file.free(f)
    file.free(a)
    assert file.write(b"g").offset == 30  # the narrowest gap, not the first


def test_a_file_is_resumed_with_the_records_that_count(tmp_path: Path) -> None:
    path = tmp_path / "records"
    file = Spill(path)
    a, b, c, _ = (file.write(bytes([request]) * 10) for request in b"abcd")
    file.sync()
    again = Spill(path, [c, a, a])
    assert path.stat().st_size > again.nbytes  # to look at it changes nothing
    again.sync()
    assert again.nbytes == path.stat().st_size == 30  # without the last one
    assert again.write(b"x" * 10).offset == b.offset
    again.check(a)
    again.check(c)
    with pytest.raises(Damaged, match="digest"):
        again.check(b)


def test_an_old_file_is_emptied_if_nothing_in_it_counts(tmp_path: Path) -> None:
    (tmp_path / "records").write_bytes(b"old" * 100)
    Spill(tmp_path / "records").sync()
    assert (tmp_path / "records").read_bytes() == b""


def test_a_temporary_file_on_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Spill()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(
        RunError, match=r"disk is full: .* in a temporary file in .* \$TMPDIR, or allow more memory"
    ):
        file.write(b"x")


@settings(max_examples=100)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=60))
def test_whatever_is_not_freed_stays(acts: list[tuple[bool, int]]) -> None:
    file, there = Spill(), {}
    for number, (put, size) in enumerate(acts):
        if put or not there:
            content = bytes([number % 256]) * size
            there[file.write(content)] = content
        else:
            place = list(there)[size % len(there)]
            del there[place]
            file.free(place)
        assert all(file.read(place) == content for place, content in there.items())
    assert file.nbytes <= sum(size for put, size in acts) + 5
