"""A client pool that trains many clients at once, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from fedflat.client.request_columns import RequestColumns, columns_of
from fedflat.client.stacked_gradients import StackedGradients, footprint
from fedflat.client.stacked_training import alike, run_stack, signature
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.failures import ClientFailure
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.execution.client_pool import ClientPool, PoolOutcome
from fedflat.execution.devices import free_memory
from fedflat.text_table import size

ROOM = 32 * 2**20
"""Bytes that the clients of one stack may take; further clients go into another stack."""
SHARE = 8
"""On a GPU a stack may take this part of the free memory: gradients, optimizers and kernels need
several times the estimate of `footprint`."""


def stack_capacity(job: ClientJob, sharing: int = 1) -> int:
    """The most clients of one stack, on a device that ``sharing`` processes share.

    On a GPU it is a power of two, so that small differences of the free memory do not change it.
    """
    device, each = job.learner.device, footprint(job.learner, job.local.batch_size)
    free = free_memory(device)
    if free is None:
        return max(1, ROOM // each)
    if each > free // sharing:
        raise SettingError(
            f"one client does not fit into the memory of {device}: it needs about {size(each)}, and "
            f"{size(free // sharing)} are free{_each(sharing)}. Use smaller batches, a smaller "
            "model, or fewer workers on the device."
        )
    most = max(1, free // SHARE // sharing // each)
    return 1 << most.bit_length() - 1


def _each(sharing: int) -> str:
    return f" for each of the {sharing} processes on it" if sharing > 1 else ""


class StackedPool(ClientPool):
    """Groups requests that can share a stack.

    A group runs as soon as it is full, after the groups that were begun before it; the others run
    when no more requests come. A stack that does not fit into memory is cut into two, and further
    stacks are of this size: the replies are those of smaller stacks.
    """

    def __init__(self, job: ClientJob, fed: Federation, capacity: int | None = None) -> None:
        self.job, self.fed, self.batched = job, fed, StackedGradients(job.learner)
        self._capacity = capacity or stack_capacity(job)
        self.opened: dict[int, ClientData] = {}
        """Data of clients that are submitted next."""
        self.begin()

    @property
    def capacity(self) -> int:
        return self._capacity

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Yield the outcomes of all requests.

        As long as the next requests can share a stack, they stay together and no single requests
        are made. The stacks are those that `submit` forms.
        """
        self.begin()
        done, count = 0, len(requests)
        while done < count:
            columns = columns_of(requests[done : done + self.capacity])
            data = self._data(columns, count - done)
            if data is None:
                yield from super().run(requests[done:])
                return
            yield from self._run_group(columns, data)
            done += len(columns)

    def _data(self, requests: RequestColumns, left: int) -> Sequence[ClientData] | None:
        """The data of clients that form the next stack; None if it must be found one by one."""
        count = len(requests)
        if count < min(self.capacity, left) or len(set(requests.ids)) < count:
            return None
        if not requests.broadcast.instruction.stackable:
            return None
        try:
            data = self.fed.cohort(requests.clients)
            if alike(self.job, requests, data):
                return data
        except Exception:  # of one client
            return None
        self.opened = dict(zip(requests.clients, data, strict=True))
        return None

    def begin(self) -> None:
        self.groups: dict[Any, list[tuple[Request, ClientData]]] = {}
        """Requests that wait, in the order of the first of each group."""
        self.full: Any = None
        """The signature of the group that is full."""
        self.failures: list[PoolOutcome] = []

    def accepts(self, ahead: int) -> bool:
        return self.full is None

    def submit(self, request: Request) -> None:
        try:
            data = self.opened.pop(request.client, None)
            if data is None:
                data = self.fed.data(request.client)
        except Exception as error:
            self.failures.append(ClientFailure.by(error, request.client, request.id))
            return
        mine = signature(self.job, request, data)
        group = self.groups.setdefault(mine, [])
        group.append((request, data))
        if len(group) >= self.capacity:
            self.full = mine

    def collect(self) -> Sequence[PoolOutcome]:
        """Run the first group; what is full is run before more requests are taken."""
        if self.failures or not self.groups:
            failures, self.failures = self.failures, []
            return failures
        first = next(iter(self.groups))
        if first == self.full:
            self.full = None
        requests, data = zip(*self.groups.pop(first), strict=True)
        return self._run_group(RequestColumns.of(requests), data)

    def _run_group(
        self, requests: RequestColumns, data: Sequence[ClientData]
    ) -> Sequence[PoolOutcome]:
        """Train clients that share a stack; if it fails, all of them fail."""
        count = len(requests)
        try:
            if count == 1:
                return [run_client(self.job, requests[0], data[0])]
            return [run_stack(self.job, self.batched, requests, data)]
        except torch.OutOfMemoryError as error:
            if count == 1:
                why = self._too_large(error)
                return [ClientFailure.by(why, requests.clients[0], requests.ids[0])]
        except Exception as error:
            return [ClientFailure.by(error, request.client, request.id) for request in requests]
        # Here the error and its traceback are gone, and with them the tensors of the stack.
        half = self._capacity = -(-count // 2)
        return [
            *self._run_group(requests[:half], data[:half]),
            *self._run_group(requests[half:], data[half:]),
        ]

    def _too_large(self, error: Exception) -> SettingError:
        learner, batch_size = self.job.learner, self.job.local.batch_size
        return SettingError(
            f"one client does not fit into the memory of {learner.device}, and larger stacks do "
            f"not either: it needs more than {size(footprint(learner, batch_size))}. Use smaller "
            f"batches, a smaller model, or fewer workers on the device. PyTorch says: {error}"
        )
