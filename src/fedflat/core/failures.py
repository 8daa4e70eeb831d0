"""A visit that ended without a reply."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedflat.errors import choice

CRASHED, LATE, REFUSED, NOT_FINITE, AWAY = REASONS = (
    "crashed",
    "too late",
    "refused",
    "not finite",
    "away",
)


@dataclass(frozen=True)
class ClientFailure:
    """A visit that ended without a reply that could be used."""

    client: int
    request: str
    """The id of the letter that was not answered."""
    reason: str
    """One of `REASONS`."""
    detail: str = ""
    """What happened, in words, if more is known."""
    error: Exception | None = field(default=None, compare=False, repr=False)
    """What to raise where nobody may be missing."""

    def __post_init__(self) -> None:
        choice("missing", "reason", self.reason, REASONS)

    @classmethod
    def by(
        cls, error: Exception, client: int, request: str, reason: str = CRASHED
    ) -> ClientFailure:
        """Missing for an error."""
        return cls(client, request, reason, f"{type(error).__name__}: {error}", error)

    def __str__(self) -> str:
        return f"client {self.client} {_WORDS[self.reason]}" + (
            f" ({self.detail})" if self.detail else ""
        )


_WORDS = {
    CRASHED: "crashed",
    LATE: "was too late",
    REFUSED: "was refused",
    NOT_FINITE: "sent NaN or infinity",
    AWAY: "was away",
}
