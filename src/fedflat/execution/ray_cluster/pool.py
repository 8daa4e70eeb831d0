"""Requests to Ray actors: one at a time for each, repeated elsewhere if an actor is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedflat.client.training import Request
from fedflat.core.failures import CRASHED, ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.errors import SettingError
from fedflat.execution.client_pool import ClientsUnreachable, PoolOutcome, RemoteClientPool
from fedflat.execution.pickling import dumps, opened
from fedflat.execution.ray_cluster.actor import ClientActor, code_digest
from fedflat.execution.ray_cluster.connection import head_problem, import_ray
from fedflat.execution.worker_died import WorkerDied
from fedflat.execution.workers import PickledJob
from fedflat.version import __version__

log = logging.getLogger(__name__)

REPEATS = 3
"""How often a request is repeated if its actor is lost; how many actors in a row may be lost before
they are ready."""
SETTLE = 5.0
"""Seconds that the start waits for the other actors once the first is ready."""
POLL = 5.0
"""Seconds between two looks at the nodes of the cluster."""
RETRY = 60.0
"""Seconds after which a new actor is tried once one could not open the job."""


@dataclass(frozen=True)
class ActorOptions:
    """The arguments of `fedflat.execution.ray_cluster.executor.Ray` that the pool needs."""

    actors: int
    threads: int
    cpus: float
    gpus: float
    wait: float


@dataclass(eq=False)
class _Actor:
    handle: Any
    node: str = "that has not answered"
    pid: int = 0


@dataclass(eq=False)
class _Task:
    """A request, and how often it was given to an actor that was lost."""

    exchange: int
    request: Request
    lost: int = 0


@dataclass(eq=False)
class _StoredBroadcast:
    """A broadcast in the object store."""

    broadcast: Broadcast
    number: int
    ref: Any
    uses: int = 0
    """Requests with this broadcast that have no outcome yet."""


@dataclass(eq=False)
class RayPool(RemoteClientPool):
    """Actors, each of which works on one request; requests beyond these wait here.

    Actors that are missing are requested without waiting for them. Ray itself restarts and repeats
    nothing: a restart waits without end for room that a lost node had.
    """

    order: PickledJob
    options: ActorOptions
    repeated: int = 0
    """Requests that were repeated because an actor was lost."""
    exchanges: int = 0
    idle: list[_Actor] = field(default_factory=list)
    opening: dict[Any, _Actor] = field(default_factory=dict)
    """Actors that are not ready yet, by the reference to their first answer."""
    busy: dict[Any, tuple[_Actor, _Task]] = field(default_factory=dict)
    queue: deque[_Task] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.ray = import_ray()
        options = self.options
        self.kind = self.ray.remote(
            num_cpus=options.cpus,
            num_gpus=options.gpus,
            max_concurrency=1,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )(ClientActor)
        self.setup = dumps((self.order.way, self.order.plugins, options.threads, None))
        self.content = self.ray.put(self.order.content)
        self.sent: dict[int, _StoredBroadcast] = {}
        """By the identity of the broadcast."""
        self.numbers = 0
        self.alone_since = time.monotonic()
        """When the last actor was lost; meaningful while there is none."""
        self.head = self.ray.get_runtime_context().gcs_address
        self.head_seen = self.looked = time.monotonic()
        """When the head answered, and when it was asked."""
        self.refusal, self.refused = "", 0.0
        """Why an actor could not open the job, and when."""
        self.lost_opening = 0
        """Actors in a row that were lost before they were ready."""

    @property
    def capacity(self) -> int:
        return max(1, len(self.idle) + len(self.busy))

    def start(self) -> None:
        """Request all actors; wait for the first, and a little for the others."""
        self._request_actors()
        while self.opening:
            ready = bool(self.idle)
            patience = SETTLE if ready else min(POLL, self._time_left())
            came, _ = self.ray.wait(list(self.opening), timeout=patience)
            for ref in came:
                self._take_actor(ref, starts=True)
            if ready and not came:
                break
            if not self.idle:
                self._require_actor()
                self._request_actors()

    def close(self) -> None:
        """End all actors, in the middle of a request too."""
        for actor in (*self.idle, *self.opening.values(), *(one for one, _ in self.busy.values())):
            self._kill(actor)

    def begin(self) -> None:
        """Answers to requests of earlier exchanges are dropped when they come."""
        self.exchanges += 1
        self.queue.clear()
        self.sent.clear()
        self._look()

    def submit(self, request: Request) -> None:
        sent = self.sent.get(id(request.broadcast))
        if sent is None:
            self.numbers += 1
            sent = _StoredBroadcast(
                request.broadcast, self.numbers, self.ray.put(dumps(request.broadcast))
            )
            self.sent[id(request.broadcast)] = sent
        sent.uses += 1
        self.queue.append(_Task(self.exchanges, request))
        self._hand_out()

    def collect(self) -> Sequence[PoolOutcome]:
        done: list[PoolOutcome] = []
        while not done and (self.queue or self._working()):
            if not self.idle and not self.busy:
                self._require_actor()
            self._look()
            refs = [*self.busy, *self.opening]
            for ref in self._wait(refs):
                if ref in self.opening:
                    self._take_actor(ref)
                else:
                    done += self._take_answer(ref)
            self._hand_out()
        return done

    def _wait(self, refs: list[Any]) -> list[Any]:
        """The tasks that are ready after at most some time."""
        if not refs:
            time.sleep(POLL / 10)
            return []
        came, _ = self.ray.wait(refs, timeout=POLL)
        return self.ray.wait(refs, num_returns=len(refs), timeout=0)[0] if came else []

    def _working(self) -> bool:
        return any(task.exchange == self.exchanges for _, task in self.busy.values())

    def _hand_out(self) -> None:
        while self.idle and self.queue:
            actor, task = self.idle.pop(), self.queue.popleft()
            request = task.request
            sent = self.sent[id(request.broadcast)]
            content = dumps((request.client, request.state, request.id))
            ref = actor.handle.run.remote(sent.number, [sent.ref], content)
            self.busy[ref] = actor, task

    def _take_answer(self, ref: object) -> list[PoolOutcome]:
        """The outcome of a request; none if it is repeated, or of an earlier exchange."""
        actor, task = self.busy.pop(ref)
        try:
            answer = self.ray.get(ref)
        except self.ray.exceptions.RayError as error:
            return self._lost(actor, task, error)
        self.idle.append(actor)
        if task.exchange != self.exchanges:
            return []
        self._release(task.request.broadcast)
        request = task.request
        try:
            outcome: PoolOutcome = opened(answer)
        except Exception as error:
            outcome = ClientFailure.by(error, request.client, request.id)
        return [outcome]

    def _lost(self, actor: _Actor, task: _Task, error: Exception) -> list[PoolOutcome]:
        """Repeat a request whose actor, or whose answer, was lost."""
        if isinstance(error, self.ray.exceptions.RayActorError):
            self._kill(actor)
            if not self.idle and not self.busy:
                self.alone_since = time.monotonic()
            self._request_actors()
        else:
            self.idle.append(actor)
        if task.exchange != self.exchanges:
            return []
        request = task.request
        where = f"client {request.client}, round {request.broadcast.round + 1}"
        if task.lost < REPEATS:
            task.lost += 1
            self.repeated += 1
            log.warning(
                "An answer from the Ray node %s was lost (%s). The request is repeated: %s.",
                actor.node,
                type(error).__name__,
                where,
            )
            self.queue.appendleft(task)
            return []
        self._release(request.broadcast)
        died = WorkerDied(
            f"{where}: its Ray actor was lost {REPEATS + 1} times ({_short(error)})",
            "Give actors more memory or use a smaller batch. ",
        )
        return [ClientFailure(request.client, request.id, CRASHED, died.reason, died)]

    def _release(self, broadcast: Broadcast) -> None:
        """Free a broadcast without requests, unless it is the last one that came."""
        sent = self.sent[id(broadcast)]
        sent.uses -= 1
        if not sent.uses and sent.number != self.numbers:
            del self.sent[id(broadcast)]

    def _take_actor(self, ref: object, starts: bool = False) -> None:
        """An actor is ready, or cannot be used; in the latter case the start of a run ends."""
        actor = self.opening.pop(ref)
        lost = False
        try:
            actor.node, actor.pid = opened(self.ray.get(ref))
            self.idle.append(actor)
            self.lost_opening = 0
            return
        except self.ray.exceptions.RayError as error:
            lost = isinstance(error, self.ray.exceptions.RayActorError)
            problem: Exception = SettingError(
                f"A Ray actor could not start ({_short(error)}). Install the same fedflat on all "
                "nodes of the cluster."
            )
        except Exception as error:
            problem = error
        self._kill(actor)
        if starts:
            raise problem
        if lost and self.lost_opening < REPEATS:  # with its node, most likely
            self.lost_opening += 1
            log.warning("A Ray actor was lost before it was ready. Another one is requested.")
            return
        self.refusal, self.refused = str(problem), time.monotonic()
        log.warning("A new Ray actor cannot be used. %s", self.refusal)

    def _kill(self, actor: _Actor) -> None:
        try:
            self.ray.kill(actor.handle)
        except Exception as error:  # it is gone already, or the cluster is
            log.debug("The Ray actor on %s cannot be ended: %s", actor.node, error)

    def _look(self) -> None:
        """Now and then: use nodes that have joined, and end the run if the head is gone."""
        if time.monotonic() - self.looked >= POLL:
            self._request_actors()

    def _head_answers(self) -> bool:
        """Whether the head accepts a connection; the run ends if it has not for too long.

        Asked before each call of Ray that needs the head: such a call waits without end for it.
        """
        problem = head_problem(self.head)
        self.looked = time.monotonic()
        if problem is None:
            self.head_seen = self.looked
            return True
        if self.looked - self.head_seen > self.options.wait:
            raise ClientsUnreachable(
                f"The head of the Ray cluster at {self.head} has not answered for "
                f"{self.options.wait:g} seconds ({problem}). Start a cluster again."
            )
        return False

    def _request_actors(self) -> None:
        """Request as many actors as are missing; do not wait for them."""
        there = len(self.idle) + len(self.busy) + len(self.opening)
        waits = self.refusal and there and time.monotonic() - self.refused < RETRY
        if not self._head_answers() or waits:
            return
        wanted = self.options.actors or self._room()
        for _ in range(max(wanted, 1) - there):
            handle = self.kind.remote()
            code = __version__, code_digest()
            self.opening[handle.open.remote(code, self.setup, self.content)] = _Actor(handle)

    def _room(self) -> int:
        cpus, gpus = self.options.cpus, self.options.gpus
        return sum(room(node["Resources"], cpus, gpus) for node in self._nodes())

    def _nodes(self) -> list[dict[str, Any]]:
        """The nodes that are alive; none if the head does not say."""
        found: list[dict[str, Any]] = []
        asks = threading.Thread(target=lambda: found.extend(self.ray.nodes()), daemon=True)
        asks.start()
        asks.join(self.options.wait)
        return [node for node in found if node["Alive"]]

    def _time_left(self) -> float:
        return max(0.0, self.alone_since + self.options.wait - time.monotonic())

    def _require_actor(self) -> None:
        """End the run if there has been no actor for too long."""
        if self._time_left() or not self._head_answers():
            return
        asked = f"{self.options.cpus:g} CPUs and {self.options.gpus:g} GPUs"
        has = ", ".join(
            f"{node['NodeManagerAddress']}: {node['Resources'].get('CPU', 0):g} CPUs, "
            f"{node['Resources'].get('GPU', 0):g} GPUs"
            for node in self._nodes()
        )
        raise ClientsUnreachable(
            f"No Ray actor was there for {self.options.wait:g} seconds. An actor needs {asked}; "
            f"the nodes of the cluster are: {has or 'none'}. "
            + (f"Last refusal: {self.refusal.rstrip('.')}. " if self.refusal else "")
            + (
                "Actors fit and have not started: set a longer wait."
                if self._room()
                else "Add nodes or ask for less (cpus, gpus)."
            )
        )


def room(resources: Mapping[str, float], cpus: float, gpus: float) -> int:
    """How many actors fit on a node with these resources.

    >>> room({"CPU": 8.0, "GPU": 2.0}, cpus=1, gpus=0.25), room({"CPU": 2.0}, cpus=0.5, gpus=0)
    (8, 4)
    """
    needs = [(resources.get(name, 0.0), each) for name, each in (("CPU", cpus), ("GPU", gpus))]
    return min(int(has / each + 1e-9) for has, each in needs if each)


def _short(error: Exception) -> str:
    """The first line of an error of Ray that says something, without the traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error: " in line and not line.startswith("ray::")]
    first = lines[0] if lines else type(error).__name__
    return (causes[-1] if causes else first).rstrip(".")[:300]
