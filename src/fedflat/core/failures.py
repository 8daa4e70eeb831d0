"""Records of clients that sent no usable reply."""

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
    """A request that got no usable reply."""

    client: int
    request: str
    """The id of the request."""
    reason: str
    """One of `REASONS`."""
    detail: str = ""
    """Description of what happened, if known."""
    error: Exception | None = field(default=None, compare=False, repr=False)
    """The error to raise in runs that allow no failure."""

    def __post_init__(self) -> None:
        choice("client failure", "reason", self.reason, REASONS)

    @classmethod
    def by(
        cls, error: Exception, client: int, request: str, reason: str = CRASHED
    ) -> ClientFailure:
        """The failure that an exception caused."""
        return cls(client, request, reason, f"{type(error).__name__}: {error}", error)

    def __str__(self) -> str:
        return f"client {self.client} {_DESCRIPTIONS[self.reason]}" + (
            f" ({self.detail})" if self.detail else ""
        )


_DESCRIPTIONS = {
    CRASHED: "crashed",
    LATE: "was too late",
    REFUSED: "was refused",
    NOT_FINITE: "sent NaN or infinity",
    AWAY: "was away",
}
