"""Names that a test registers are forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plugins.forgetting import forget


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget()
    yield
    forget()
