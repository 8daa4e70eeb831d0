"""What a way to make visits is: an executor opens a crew for a run, and the crew turns letters into
replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, runtime_checkable

import torch

from fedflat.client.piece import ClientState
from fedflat.client.training import ClientJob, Outcome, Request, run_client
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Reply, ReplyBatch
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation

Answered = tuple[Reply | ReplyBatch, ClientState]
"""A reply and what the client remembers; or those of several clients, in rows."""
PoolOutcome = Answered | ClientFailure
"""How a visit ends."""
Source = Callable[[], Federation]
"""A picklable way to the data."""


class ClientPool(Protocol):
    """Those who make the visits of one run."""

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Replies and new memories, in the order of the letters, or why there is none: an error in
        a visit is no error of the crew's.

        A sheaf comes at the place of the first of its letters, with its rows in their order.
        """
        ...


Then = Callable[[int, PoolOutcome], Request | None]
"""Told the place of a letter and what came of its visit: the letter that follows it, if one
does."""

Left = Callable[[int, int], float]
"""Told the place of a chain's first letter and how many of its visits are made: what is still to be
done along it."""


@runtime_checkable
class ChainPool(Protocol):
    """A crew that goes on from visit to visit along each of several chains, whatever the others do
    meanwhile."""

    def run_chains(
        self, requests: Sequence[Request], then: Then, left: Left
    ) -> Iterator[PoolOutcome]:
        """How the last visit of each chain ends, in the order of the first letters.

        ``then`` is asked by the process that the crew works for, at the end of each visit. Chains
        with most left go first.
        """
        ...


@runtime_checkable
class StatefulPool(Protocol):
    """A crew whose clients keep what they remember themselves: letters bring them none, and answers
    none back.

    What a letter changes counts from the end of its round on, if the server says so; until then the
    client has it for further letters of the round.
    """

    def restore(self, round: int) -> None:
        """Go on from what counted when so many rounds were done, in this process or before."""
        ...

    def commit(self, requests: Sequence[str]) -> None:
        """A round is done: what these letters, by their ids, have changed counts, and what others
        have does not."""
        ...

    def discard(self) -> None:
        """A round was broken off: nothing of it counts."""
        ...

    def has_state(self, client: int) -> bool:
        """Whether a client remembers anything that counts."""
        ...


class Executor(Protocol):
    """A way to make visits: whatever has this is one."""

    def open(
        self, job: ClientJob, fed: Federation, source: Source
    ) -> AbstractContextManager[ClientPool]:
        """A crew for one run, until the block is left."""
        ...


def run_or_fail(
    job: ClientJob, request: Request, data: Callable[[int], ClientData]
) -> Outcome | ClientFailure:
    """Make a visit, whatever comes of it; the client's data are opened for it."""
    try:
        return run_client(job, request, data(request.client))
    except Exception as error:
        return ClientFailure.by(error, request.client, request.id)


ExecutorLike = str | Executor
"""An executor, or the name of one of ours."""


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Operations in here are shared by ``n`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
