"""What can be typed: commands, options, and the nearest right word for a wrong one."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from fedflat.cli import analysis_options as looking
from fedflat.cli.reproduce_options import reproduce_options
from fedflat.cli.values import memory, path, real, scalar, target, whole
from fedflat.errors import nearest
from fedflat.settings.groups import DESCRIBING, MACHINE, SETTINGS
from fedflat.settings.setting import Setting
from fedflat.version import __version__

EXAMPLES = """examples:
  fedflat run "fedsam(rho=0.05) + swa()" --on "digits(lda(0))" --out runs/first
  fedflat compare fedavg "fedgloss(rho_s=0.05, rho_l=0.05)" --on "digits(lda(0))" --rounds 300 --seeds 3
  fedflat resume runs/first
  fedflat watch runs
  fedflat run --preset fedgloss/cifar10-cnn-alpha0 --rounds 500 --stretch
  fedflat methods
  fedflat models
  fedflat presets fedgloss
  fedflat reproduce toy
  fedflat data list
"""
ALPHAS = """what alpha is in a partition:
  lda(alpha)                             each client draws from Dirichlet(alpha * class frequencies): alpha is divided
                                         among the classes; the same as concentration='total'
  lda(alpha, concentration='component')  each client draws from Dirichlet([alpha] * classes): every class has alpha
  dirichlet(alpha)                       each class is divided by Dirichlet([alpha] * clients), as in NIID-Bench, PFLlib
                                         and FedLab; balance=False as in Flower Datasets"""

KINDS = (
    "models",
    "partitions",
    "tasks",
    "topologies",
    "groupings",
    "clocks",
    "spreads",
    "presences",
    "starts",
    "attacks",
    "schedules",
)


class Parser(argparse.ArgumentParser):
    """A parser that answers a wrong word with the nearest right one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    def read(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Read the words; refuse those nobody knows."""
        read, unknown = self.parse_known_args(words)
        if unknown and read.command == "run" and not unknown[0].startswith("-"):
            self.error(
                f"run takes one method, found {unknown[0]!r} beside {read.method!r}. To run both and compare them: "
                "fedflat compare METHOD METHOD ..., or join them into one method with '+'."
            )
        if unknown:
            known = getattr(read, "options", list(self._option_string_actions))
            self.error(
                f"unknown option {unknown[0]!r}.{nearest(unknown[0].partition('=')[0], known)}"
            )
        return read

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or a version; argparse itself hides that they could not be written."""
        print(message, end="", file=file or sys.stderr)

    def error(self, message: str) -> NoReturn:
        """Say what was wrong and where help is; status 2."""
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if wrong:
            known = re.findall(r"[\w-]+", wrong[2])
            message = (
                f"unknown word {wrong[1]!r}.{nearest(wrong[1], known)} Known: {', '.join(known)}."
            )
        self.exit(2, f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")


def build() -> Parser:
    """The whole command line."""
    top = Parser("fedflat", description="Federated learning that generalises.", epilog=EXAMPLES)
    top.add_argument("--version", action="version", version=f"fedflat {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    runs, looks = _runs(commands), looking.add_commands(commands)
    for name in ("analyse", "report", "predict"):
        _data_dir(looks[name])
    others = [*_lists(commands), _reproduce(commands), *_data(commands)]
    for command in (*runs, *looks.values(), *others):
        _finish(command)
    return top


def _runs(commands: argparse._SubParsersAction[Any]) -> list[argparse.ArgumentParser]:
    """The commands that train, and the one that shows runs while they go on."""
    run = commands.add_parser(
        "run", help="run one method", description="Run one method, with one seed or several."
    )
    method = run.add_argument(
        "method", metavar="METHOD", help='such as "feddyn(alpha=0.01) + sam(rho=0.05)"'
    )
    _preset(run, method)
    _run_options(run)

    compare = commands.add_parser("compare", help="run several methods and make a table of them")
    compare.add_argument("methods", metavar="METHOD", nargs="+")
    _run_options(compare)

    resume = commands.add_parser("resume", help="go on with a run or a study that was stopped")
    resume.add_argument("folder", type=path, metavar="DIR")
    resume.add_argument(
        "--until", type=whole, metavar="N", help="stop after N rounds, to go on later"
    )
    _going_options(resume)

    live = commands.add_parser(
        "watch", help="show runs in a browser while they go on; Ctrl-C ends it"
    )
    live.add_argument(
        "folder",
        type=path,
        metavar="DIR",
        help="a run, a study, or a folder with runs, now or later",
    )
    live.add_argument(
        "--port", type=whole, default=8765, metavar="N", help="(default 8765; 0: any that is free)"
    )
    return [run, compare, resume, live]


def _lists(commands: argparse._SubParsersAction[Any]) -> list[argparse.ArgumentParser]:
    """The commands that list what can be said."""
    methods = commands.add_parser(
        "methods", help="list all methods, their arguments, papers and costs"
    )
    methods.add_argument(
        "name", metavar="METHOD", nargs="?", help="one of them, or a combination, in detail"
    )
    kinds = [
        commands.add_parser(kind, help=f"list all {kind} and their arguments") for kind in KINDS
    ]
    presets = commands.add_parser("presets", help="the runs of the papers' tables")
    presets.add_argument(
        "word",
        metavar="WORD",
        nargs="?",
        help="a paper; or those with this in their name; or a name: in detail",
    )
    return [methods, *kinds, presets]


def _reproduce(commands: argparse._SubParsersAction[Any]) -> argparse.ArgumentParser:
    reproduce: argparse.ArgumentParser = commands.add_parser(
        "reproduce", help="run cells of a paper's table beside the paper's numbers"
    )
    reproduce_options(reproduce)
    _data_dir(reproduce)
    return reproduce


def _data(commands: argparse._SubParsersAction[Any]) -> list[argparse.ArgumentParser]:
    """The commands on data sets."""
    data = commands.add_parser("data", help="list, fetch and show data sets")
    jobs = data.add_subparsers(dest="job", required=True, metavar="JOB")
    listing = jobs.add_parser("list", help="all data sets, where they are, what to do for the rest")
    get = jobs.add_parser("get", help="fetch a data set")
    get.add_argument("name", metavar="NAME")
    show = jobs.add_parser(
        "show", help="what a data set holds and how its clients differ", epilog=ALPHAS
    )
    show.add_argument("on", metavar="DATA", help='such as "cifar10(lda(0), clients=100)"')
    show.add_argument("--seed", type=whole, default=0)
    _show_options(show)
    for part in (listing, get, show):
        _data_dir(part)
    return [listing, get, show]


def _finish(parser: argparse.ArgumentParser) -> None:
    """What every command takes, and its options to propose in place of wrong ones."""
    parser.add_argument(
        "--plugin",
        action="append",
        metavar="FILE",
        help="code of yours that registers names: my_methods.py, or package.module; may be given again",
    )
    parser.set_defaults(options=list(parser._option_string_actions))


def _show_options(parser: argparse.ArgumentParser) -> None:
    """How groups are made; the settings are those of `run`, where clients must describe themselves
    by a model."""
    add = parser.add_argument
    add(
        "--groups",
        metavar="GROUPING",
        help="also draw groups of clients: greedy(psi='labels'), or 5",
    )
    describing = parser.add_argument_group(
        "for --groups by what clients say of themselves, as in a run"
    )
    where = [one for one in MACHINE if one.name in ("executor", "workers", "threads", "device")]
    _add_settings(describing, [*DESCRIBING, *where])
    add("--quiet", action="store_true", help="no progress")


def _preset(parser: argparse.ArgumentParser, method: argparse.Action) -> None:
    """The option that takes the place of METHOD."""

    def name(text: str) -> str:
        method.required = False
        return text

    parser.add_argument(
        "--preset",
        type=name,
        metavar="NAME",
        help="in place of METHOD: a run of a paper (`fedflat presets`); other options change it",
    )
    parser.add_argument(
        "--stretch",
        action="store_true",
        help="with --preset and --rounds: warm-ups, cycles, decays keep their share of the run",
    )


def _run_options(parser: argparse.ArgumentParser) -> None:
    """The options of `run` and `compare`. Settings that are not typed stay unsaid: a preset may say
    them."""
    _add_settings(parser, [one for one in SETTINGS if one.name != "seed"])
    _machine_options(parser)


_GOING = ("watch", "track")
"""What may be said anew when a run goes on."""
_READ = {"int": whole, "Scalar": scalar, "bytes": memory}


def _add_settings(where: argparse._ActionsContainer, settings: Sequence[Setting]) -> None:
    """The options of those that can be typed; what is not typed stays unsaid."""
    places = {"": where}
    for one in settings:
        if one.typeable:
            if one.about.either not in places:
                places[one.about.either] = where.add_mutually_exclusive_group()
            _add_setting(places[one.about.either], one, argparse.SUPPRESS)


def _add_setting(where: argparse._ActionsContainer, one: Setting, default: Any) -> None:
    """The option of a setting."""
    help = one.described.replace("%", "%%")
    if one.kind == "bool":
        where.add_argument(one.option, action="store_true", default=default, help=help)
    else:
        read = _READ.get(one.about.unit or one.kind, str)
        where.add_argument(
            one.option, type=read, default=default, metavar=one.about.metavar, help=help
        )


def _machine_options(parser: argparse.ArgumentParser) -> None:
    """Options that no preset says."""
    add = parser.add_argument
    add(
        "--replay",
        type=path,
        metavar="FILE",
        help='JSON with "cohorts" and "orders": the clients and batches to use',
    )
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", type=whole, metavar="S", help="(default 0, or a preset's first)")
    seeds.add_argument(
        "--seeds",
        type=whole,
        metavar="N",
        help="run with seeds 0 to N-1, or with a preset's first N",
    )
    for one in MACHINE:
        if one.name not in _GOING:
            _add_setting(parser, one, one.default)
    add("--out", type=path, metavar="DIR", help="the run folder (default: a new one in runs/)")
    _going_options(parser)


def _going_options(parser: argparse.ArgumentParser) -> None:
    """The options of whatever trains, from the beginning or not."""
    parser.add_argument(
        "--checkpoint-every",
        type=real,
        default=20.0,
        metavar="SECONDS",
        help="at most so often (default 20)",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="say where the time went, and draw it into the run folder",
    )
    for one in MACHINE:
        if one.name in _GOING:
            _add_setting(parser, one, None)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    _table_options(parser)
    _data_dir(parser)


def _table_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        type=target,
        metavar="A",
        help="accuracy, or what the run is judged by, to reach: 0.9 or 90%%; kept with a study (default: the first's)",
    )
    style = parser.add_mutually_exclusive_group()
    style.add_argument(
        "--csv", dest="style", action="store_const", const="csv", help="the table as CSV"
    )
    style.add_argument(
        "--markdown", dest="style", action="store_const", const="markdown", help="... as Markdown"
    )
    parser.set_defaults(style="text")


def _data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=path, metavar="DIR", help="where data sets are kept")
