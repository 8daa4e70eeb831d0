"""``fedflat deploy init``, ``serve`` and ``status`` on the server's machine, ``join`` on a client's."""

from __future__ import annotations

import json
import secrets
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from fedflat.cli.preset_listing import settings_of
from fedflat.cli.training import given_settings, train_new, train_on
from fedflat.data.federation import DataSpec
from fedflat.data.sets.csv_file import CsvFile
from fedflat.data.sets.image_folder import ImageFolder
from fedflat.data.sets.remote_clients import RemoteClients, check_fits, check_names, form_of_test
from fedflat.deploy.executor import Deployed, check_noise, start_session
from fedflat.deploy.federation_folder import (
    FederationFolder,
    add_clients,
    deployment_text,
    make_federation,
    open_federation_folder,
    parse_address,
    read_participant,
    renew_server,
)
from fedflat.deploy.node import Node, NodeSettings, open_cell_link
from fedflat.deploy.session import Session
from fedflat.deploy.status import read_status, status_text
from fedflat.deploy.supervise import end_with_parent
from fedflat.deploy.transport import LARGEST, require_extra
from fedflat.errors import PrintLine, RunError, SettingError, number, printable_lines
from fedflat.experiments.api import experiments
from fedflat.experiments.execution_config import ExecutionConfig, executor_of
from fedflat.experiments.experiment import Experiment, data_set
from fedflat.experiments.loggers import check_installed
from fedflat.experiments.run_folder.record import read_record
from fedflat.settings.execution import MACHINE


def join(args: Namespace) -> int:
    """Take part as a client, in a process that another one watches."""
    require_extra()
    participant = read_participant(Path(args.file))
    agree_on_tls(participant.tls, args)
    settings = NodeSettings(
        own_data(args.data),
        args.part,
        Path(args.state) if args.state else Path(args.file).with_suffix(""),
        threads=args.threads,
        device=args.device,
        wait=args.wait,
    )
    end_with_parent()
    Node(participant, settings, open_cell_link, printer(args)).run()
    return 0


def own_data(text: str) -> DataSpec:
    """A folder of images, a CSV file, or the text of a data set.

    All images and all rows are used, by a client for training and by the server for testing, unless
    the folder has subfolders ``train`` and ``test``.
    """
    place = Path(text)
    if place.is_dir():
        divided = (place / "train").is_dir() and (place / "test").is_dir()
        return ImageFolder(text, test=None if divided else text, clients=1)
    if text.endswith((".csv", "/")):
        if not place.is_file():
            raise SettingError(
                f"{text} is not there. Name a folder of images by class, a CSV file, or a data set "
                "such as 'digits()'."
            )
        return CsvFile(text, test=text, clients=1)
    return data_set(text)


def agree_on_tls(tls: bool, args: Namespace) -> None:
    """Refuse to go without TLS unless that was asked for by name."""
    if not tls and not args.insecure_no_tls:
        raise SettingError(
            "deploy: this federation was made without TLS, so anybody on the way can read what is "
            "sent. Make one with TLS, or accept that: --insecure-no-tls."
        )
    if tls and args.insecure_no_tls:
        raise SettingError("deploy: this federation has TLS. Leave --insecure-no-tls out.")


def printer(args: Namespace) -> PrintLine:
    """Prints lines on standard error, unless they are not wanted."""

    def print_line(text: str) -> None:
        if not getattr(args, "quiet", False):
            print(text, file=sys.stderr, flush=True)

    return print_line


MEGABYTE = 10**6
LONGEST = 3650
"""Most days that certificates count."""


def init(args: Namespace) -> int:
    """Make a federation, or add clients to one."""
    require_extra()
    number("deploy init", "days", args.days, low=1, high=LONGEST, whole=True)
    path = Path(args.folder)
    names = [name.strip() for name in args.clients.split(",") if name.strip()]
    if (path / "federation.json").exists():
        folder = open_federation_folder(path)
        if args.address or args.insecure_no_tls:
            raise SettingError(
                f"{path} is a federation already, at {folder.host}:{folder.port}. Leave --address "
                "and --insecure-no-tls out, or make a new one elsewhere."
            )
        if args.renew:
            renew_server(folder, days=args.days)
            names = [*folder.clients, *names]
    else:
        if not names:
            raise SettingError("deploy init: name the clients: --clients hospital-a,lab_b.")
        host, port = parse_address(args.address or "127.0.0.1:8443")
        folder = make_federation(path, host, port, (), days=args.days, tls=not args.insecure_no_tls)
    if not names:
        raise SettingError(f"{path} is a federation already. Add clients: --clients NAMES.")
    folder = add_clients(folder, names, days=args.days)
    print(f"{path}: the server is at {folder.host}:{folder.port}, {_tls(folder.tls)}")
    for name in names:
        print(f"  give {path / 'participants' / name}.join to {name} only")
    return 0


def serve(args: Namespace) -> int:
    """Run a method as the server, or go on with a run."""
    require_extra()
    if args.resume is not None:
        return _resume(args)
    if not args.method:
        raise SettingError("deploy serve: name a method, such as fedavg, or --resume RUN.")
    if args.seeds is not None:
        raise SettingError("deploy serve: one run at a time. Use --seed in place of --seeds.")
    if args.round_timeout is not None and getattr(args, "min_replies", None) is None:
        raise SettingError(
            "deploy serve: with --round-timeout replies may be missing. Say with how many a round "
            "may go on: --min-replies 1."
        )
    folder = open_federation_folder(Path(args.federation))
    agree_on_tls(folder.tls, args)
    if args.test is None:
        raise SettingError(
            "deploy serve: name a data set whose test examples the server has: --test 'digits()'. "
            "Training examples of it are not used."
        )
    number("deploy serve", "--max-message", args.max_message, low=0, high=LARGEST / MEGABYTE)
    _fill(args)
    test = own_data(args.test)
    executor = Deployed(
        str(folder.path.resolve()),
        run=secrets.token_hex(6),
        round_timeout=args.round_timeout,
        wait=args.wait,
        most=int(args.max_message * MEGABYTE),
    )
    on = RemoteClients(executor.path, executor.run, test)
    recorded = [] if args.record is None else [str(args.record)]
    printer(args)(deployment_text(_planned(args, test), recorded))
    needed = form_of_test(test, test.open(args.seed or 0).test)
    session = start_session(executor, args.seed or 0, printer(args))
    session.check_profile = lambda profile: check_fits(profile, needed)
    try:
        names = _gather(session, folder, args)
        asked = getattr(args, "clients_per_round", None)
        args.clients_per_round = len(names) if asked is None else asked
        least = getattr(args, "min_replies", None) or args.clients_per_round
        args.on = on
        args.executor = repr(replace(executor, least=min(least, len(names))))
        status = train_new(args, [args.method])
        session.end()
        return status
    finally:
        session.close()


def _planned(args: Namespace, test: DataSpec) -> Experiment:
    """The experiment as far as it is known before clients join; an error if its settings are wrong.

    The server's test set stands for the clients' data, which have the same form.
    """
    settings = settings_of(None, given_settings(args), stretched=False)
    exp = experiments([args.method], seeds=[args.seed or 0], **settings | {"on": test})[0]
    here = [one.name for one in MACHINE if one.typeable and one.name != "executor"]
    ExecutionConfig(**{name: getattr(args, name) for name in here})
    check_installed(args.logger)
    if exp.method.pooled:
        raise SettingError(
            f"{exp.method} needs all data in one place, and these are at the clients. Use a "
            "federated method."
        )
    check_noise(exp.method)
    return exp


def _gather(session: Session, folder: FederationFolder, args: Namespace) -> list[str]:
    """Wait for clients; those that are there are the clients of the run."""
    count = len(session.clients) if args.wait_for is None else args.wait_for
    if not 1 <= count <= len(session.clients):
        raise SettingError(
            f"--wait-for must be from 1 to {len(session.clients)}, the registered clients, found "
            f"{count}."
        )
    session.print_line(
        f"fedflat: serving at {folder.host}:{folder.port}, {_tls(folder.tls)}; waiting for {count} "
        f"of {len(session.clients)} clients"
    )
    session.least, session.wait = count, args.wait
    session.wait_until(lambda: len(session.online()) >= count, "here")
    names = session.online()
    _check_names(session, names)
    session.begin(names)
    session.write_clients()
    return names


def _check_names(session: Session, names: list[str]) -> None:
    """Refuse clients whose classes or columns have different names."""
    profiles = [session.clients[name].profile or {} for name in names]
    for what in ("class_names", "columns"):
        known = [profile for profile in profiles if profile.get(what)]
        for profile in known:
            try:
                check_names(profile, known[0], known[0]["name"])
            except SettingError as error:
                raise RunError(f"deploy: {error}") from None


def _resume(args: Namespace) -> int:
    if args.method:
        raise SettingError("deploy serve: --resume takes the method from the run. Leave it out.")
    record = read_record(Path(args.resume))
    text = record.execution.get("executor")
    executor = executor_of(text) if isinstance(text, str) else None
    if not isinstance(executor, Deployed):
        raise RunError(f"{args.resume} is not a deployed run. Use `fedflat resume`.")
    folder = open_federation_folder(Path(executor.path))
    agree_on_tls(folder.tls, args)
    session = start_session(executor, record.experiment.seed, printer(args))
    try:
        args.folder, args.until, args.device = args.resume, None, None
        _fill(args)
        status = train_on(args)
        session.end()
        return status
    finally:
        session.close()


def _fill(args: Namespace) -> None:
    """Options that `fedflat run` has and a deployment has not."""
    for name, value in {"workers": 0, "threads": None, "devices": None, "executor": None}.items():
        if not hasattr(args, name):
            setattr(args, name, value)


def status(args: Namespace) -> int:
    """Print what the server does."""
    folder = Path(args.folder)
    open_federation_folder(folder)
    if args.json:
        print(json.dumps(read_status(folder), indent=1))
    else:
        print(printable_lines(status_text(folder)))
    return 0


def _tls(tls: bool) -> str:
    return "with TLS" if tls else "WITHOUT TLS"
