"""``fedflat deploy``: a federation over a network, with real clients."""

from __future__ import annotations

import argparse

from fedflat.cli.options import data_dir_option, path, quiet_option, real, whole
from fedflat.cli.run_options import Options, experiment_options

HELP = "a federation over a network: init, serve, join, status"
EXAMPLES = (
    "fedflat deploy init --help",
    "fedflat deploy serve --help",
    "fedflat deploy join --help",
)
NETWORK = "network"
ELSEWHERE = (
    *("on", "workers", "threads", "devices", "executor", "clock", "attack"),
    *("validation", "validation_by", "select_by", "patience"),
)
"""Settings of a simulation, and those that need all training examples in one place."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One command per role."""
    parser.description = (
        "Run a method over a network: the server and each client are processes on machines of "
        "different owners. The extra fedflat[deploy] is needed."
    )
    commands = parser.add_subparsers(dest="role", required=True, metavar="ROLE")
    _init(commands.add_parser("init", help="make a federation: CA, keys, a file per client"))
    _serve(commands.add_parser("serve", help="run a method as the server"))
    _join(commands.add_parser("join", help="take part as a client, with data of one's own"))
    _status(commands.add_parser("status", help="who is online, which round, what was sent"))


def _init(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Make the folder of a federation: a CA, the server's certificate, and for each client a "
        "file with its key. With a folder that is one, add clients to it or renew certificates."
    )
    parser.add_argument("folder", type=path, metavar="DIR", help="folder of the federation")
    parser.add_argument(
        "--clients", default="", metavar="NAMES", help="names of clients, such as hospital-a,lab_b"
    )
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="where clients reach the server (default 127.0.0.1:8443)",
    )
    parser.add_argument(
        "--days", type=whole, default=365, metavar="N", help="days that certificates count"
    )
    parser.add_argument(
        "--renew", action="store_true", help="make new certificates for the server and all clients"
    )
    _insecure(parser, "no TLS: anybody on the way reads models; messages are still signed")


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a method as the server of a federation. It waits for the clients, then runs the "
        "rounds, and writes a run folder as `fedflat run` does."
    )
    parser.usage = "%(prog)s METHOD [options]"
    parser.add_argument(
        "method", nargs="?", metavar="METHOD", help='such as "fedgloss(rho_s=0.05, rho_l=0.05)"'
    )
    options = Options(parser, NETWORK)
    options.add(
        NETWORK,
        "--federation",
        type=path,
        default="federation",
        metavar="DIR",
        help="folder that `fedflat deploy init` made (default: federation)",
    )
    options.add(
        NETWORK,
        "--test",
        metavar="DATA",
        help="test examples that the server has: folder of images by class, CSV file, or a data set "
        "such as 'digits()'; needed",
    )
    options.add(
        NETWORK,
        "--wait-for",
        type=whole,
        metavar="N",
        help="begin when N clients are there (default: all that are registered)",
    )
    options.add(
        NETWORK,
        "--wait",
        type=real,
        default=300.0,
        metavar="SECONDS",
        help="how long to wait for clients (default 300)",
    )
    options.add(
        NETWORK,
        "--round-timeout",
        type=real,
        metavar="SECONDS",
        help="an exchange ends after this time, without clients that have not answered; needs "
        "--min-replies (default: wait for all)",
    )
    options.add(
        NETWORK,
        "--max-message",
        type=real,
        default=1000.0,
        metavar="MB",
        help="largest message that is read, in MB (default 1000)",
    )
    options.add(
        NETWORK,
        "--resume",
        type=path,
        metavar="RUN",
        help="go on with a run folder, in place of METHOD",
    )
    _insecure(options.groups[NETWORK], "serve a federation that was made without TLS")
    experiment_options(options, without=ELSEWHERE)


def _join(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Take part in a federation with data of your own. The data stay here; the server learns "
        "their number and shapes, and gets what the method sends."
    )
    parser.add_argument(
        "file", type=path, metavar="FILE", help="file NAME.join that you were given"
    )
    parser.add_argument(
        "--data",
        required=True,
        metavar="DATA",
        help="folder of images by class, CSV file, or a data set such as \"image_folder('mine', clients=1)\"",
    )
    parser.add_argument(
        "--part", type=whole, metavar="K", help="use client K of the data only, for trials"
    )
    parser.add_argument(
        "--state",
        type=path,
        metavar="DIR",
        help="folder of the client's own states (default: FILE without .join, beside it)",
    )
    parser.add_argument("--threads", type=whole, default=1, metavar="N", help="torch threads")
    parser.add_argument("--device", default="cpu", metavar="DEVICE", help="cpu, cuda or mps")
    parser.add_argument(
        "--wait",
        type=real,
        default=300.0,
        metavar="SECONDS",
        help="how long to wait for a server that is not there (default 300)",
    )
    _insecure(parser, "join a federation that was made without TLS")
    quiet_option(parser)
    data_dir_option(parser)


def _status(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print who is online, which round runs, and what was sent."
    parser.add_argument(
        "folder",
        type=path,
        nargs="?",
        default="federation",
        metavar="DIR",
        help="folder of the federation (default: federation)",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _insecure(parser: argparse._ActionsContainer, help: str) -> None:
    parser.add_argument("--insecure-no-tls", action="store_true", help=help)


def run(args: argparse.Namespace) -> int:
    """Do what the role does."""
    if args.role == "join":
        return _run_join(args)
    from fedflat.cli import deploy

    roles = {"init": deploy.init, "serve": deploy.serve, "status": deploy.status}
    return roles[args.role](args)


def _run_join(args: argparse.Namespace) -> int:
    """Watch a process that takes part; this one imports nothing heavy."""
    from fedflat.deploy.supervise import is_watched, supervise

    if not is_watched():
        return supervise(args.words)
    from fedflat.cli.deploy import join

    return join(args)
