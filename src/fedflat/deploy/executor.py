"""The executor `deployed`: clients on other machines, reached through a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fedflat.client.training import ClientJob
from fedflat.composition.method import Method
from fedflat.data.federation import Federation
from fedflat.data.sets.remote_clients import RemoteClients
from fedflat.deploy.envelope import ReplyForm
from fedflat.deploy.federation_folder import open_federation_folder
from fedflat.deploy.network_pool import NetworkPool
from fedflat.deploy.session import MOST_MESSAGE, SESSIONS, Session
from fedflat.deploy.transport import LARGEST
from fedflat.errors import LONGEST_WAIT, PrintLine, SettingError, number
from fedflat.execution.client_pool import Source
from fedflat.execution.wire_format import encode
from fedflat.experiments.experiment import from_json
from fedflat.experiments.job_spec import spec_of_job
from fedflat.methods.dp import PrivateMean
from fedflat.registry.specs import TextSpec, register


@register("executor", "deployed")
@dataclass(frozen=True, repr=False)
class Deployed(TextSpec):
    """Clients on other machines. `fedflat deploy serve` uses it, and `fedflat resume` goes on.

    Args:
        path: The folder of the federation.
        run: The id of the run.
        least: How many clients must be online for a round to begin.
        round_timeout: Seconds after which an exchange ends without late clients. None: wait.
        wait: Seconds to wait for clients before the run is given up.
        most: The largest number of bytes of a message.
    """

    path: str
    run: str = ""
    least: int = 1
    round_timeout: float | None = None
    wait: float = 300.0
    most: int = MOST_MESSAGE

    def __post_init__(self) -> None:
        number("deployed", "least", self.least, low=1, whole=True)
        number("deployed", "wait", self.wait, low=0, high=LONGEST_WAIT)
        number("deployed", "most", self.most, low=1, high=LARGEST, whole=True)
        if self.round_timeout is not None:
            longest = LONGEST_WAIT
            number(
                "deployed", "round_timeout", self.round_timeout, low=0, high=longest, open_low=True
            )

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[NetworkPool]:
        """Send the job to the clients; the session is that of this process, or a new one."""
        if fed.here:
            raise SettingError(
                "deployed: the data of this run are here. Use `fedflat deploy serve`, or another "
                "executor."
            )
        hidden = {
            **job.experiment,
            "on": repr(RemoteClients("", self.run)),
            "plugins": [plugin | {"place": ""} for plugin in job.experiment.get("plugins", ())],
        }
        spec = spec_of_job(replace(job, experiment=hidden))
        check_noise(from_json(hidden).method)
        session = SESSIONS.get(self.run)
        started = session is None
        if session is None:
            session = start_session(self, job.seed)
        if not session.members:
            joined = RemoteClients(self.path, self.run).joined()
            session.begin([one["name"] for one in joined], joined)
        session.least, session.wait = self.least, self.wait
        pool = NetworkPool(session, ReplyForm.of(job), job.learner.device, self.round_timeout)
        try:
            session.use_job(encode(spec))
            yield pool
            if started:
                session.end()
        finally:
            pool.close()
            if started:
                session.close()


def check_noise(method: Method) -> None:
    """Refuse noise that participants could subtract, as the seed of the run is sent to them."""
    for piece in method.server:
        if isinstance(piece, PrivateMean) and piece.noise and not piece.secret:
            raise SettingError(
                "dp: all participants of a deployment know the seed of the run, from which this "
                "noise comes, and could subtract it. Write dp(..., secret=True)."
            )


def start_session(executor: Deployed, seed: int, print_line: PrintLine = print) -> Session:
    """Open the server's port, and begin to receive messages."""
    from fedflat.deploy.cells import CellTransport

    folder = open_federation_folder(Path(executor.path))
    folder.identity()
    transport = CellTransport(
        folder.listens_on, folder.port, folder.credentials(), folder.path, executor.most
    )
    return Session(
        folder, transport, run=executor.run, seed=seed, most=executor.most, print_line=print_line
    )
