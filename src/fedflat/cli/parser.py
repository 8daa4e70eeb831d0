"""The parser of the command line, built from the commands in `verbs` and from those that plugins
register."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NoReturn, Protocol

from fedflat.cli import verbs
from fedflat.errors import SettingError, nearest
from fedflat.version import __version__

EXAMPLES = """examples:
  fedflat run "fedsam(rho=0.05) + swa()" --on "digits(lda(0))" --out runs/first
  fedflat compare fedavg "fedgloss(rho_s=0.05, rho_l=0.05)" --on "digits(lda(0))" --rounds 300 --seeds 3
  fedflat resume runs/first
  fedflat dashboard runs
  fedflat run --preset fedgloss/cifar10-cnn-alpha0 --rounds 500 --stretch
  fedflat list methods
  fedflat list models
  fedflat list presets fedgloss
  fedflat reproduce toy
  fedflat data show "digits(lda(0.1), clients=50)"

Put quotes around arguments with parentheses. Each command has examples: fedflat run --help.
A plugin can add commands: fedflat NAME --plugin FILE.
"""


QUOTE = "\n\nPut quotes around arguments with parentheses: the shell would interpret them."
CORRECTIONS = {
    "train": "run",
    "fit": "run",
    "simulate": "run",
    "continue": "resume",
    "plot": "report",
    "figure": "report",
    "show": "list",
    "datasets": "data list",
    "download": "data get",
    "analysis": "analyse",
    "serve": "deploy serve",
}
"""Words that are tried for commands."""
CLIENTS = 'Write the number of clients in the data set: --on "digits(lda(0), clients=100)".'
PARTITION = 'Write the partition in the data set: --on "digits(dirichlet(0.1), clients=100)".'
METHOD = 'The method is the first argument: fedflat run "fedprox(mu=0.1)".'
ELSEWHERE = {
    "--on": "data dataset",
    "--rounds": "gr global-rounds num-rounds num-server-rounds n-rounds comm-round comm-rounds",
    "--clients-per-round": "jr join-ratio sample fraction-fit fraction-train frac num-join-clients",
    "--local-epochs": "epochs ls num-epochs local-ep",
    "--batch-size": "bs lbs batch local-bs",
    "--lr": "learning-rate lbr local-learning-rate",
    "--seed": "init-seed random-seed",
    "--out": "output logdir log-dir save-dir",
    CLIENTS: "clients num-clients n-clients nc n-parties num-users num-supernodes",
    PARTITION: "partition alpha beta niid noniid dirichlet",
    METHOD: "method alg algo algorithm strategy mu rho",
}
"""What to write for options that other libraries have. A fraction of clients is a number here."""


class Command(Protocol):
    """A command of a plugin: a class under ``register("command", "name")``; its docstring is its
    help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return its exit status."""
        ...


class Parser(argparse.ArgumentParser):
    """A parser that proposes the nearest known word for an unknown one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    def read(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse the words; refuse unknown options."""
        read, unknown = self.parse_known_args(words)
        if unknown and read.command == "run" and not unknown[0].startswith("-"):
            self.error(
                f"run takes one method, found {unknown[0]!r} after {read.method!r}. To compare "
                "both: fedflat compare METHOD METHOD ... To combine them into one method: 'METHOD "
                "+ METHOD'."
            )
        if unknown:
            known = getattr(read, "options", list(self._option_string_actions))
            self.error(f"unknown option {unknown[0]!r}.{_instead(unknown[0], known)}")
        return read

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or a version; argparse itself hides that they could not be written."""
        print(message, end="", file=file or sys.stderr)

    def error(self, message: str) -> NoReturn:
        """Print the error and where to find help; exit with status 2."""
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if wrong:
            known = re.findall(r"[\w-]+", wrong[2])
            near = f" Did you mean '{CORRECTIONS[wrong[1]]}'?" if wrong[1] in CORRECTIONS else ""
            message = (
                f"unknown word {wrong[1]!r}.{near or nearest(wrong[1], known)} Known: "
                f"{', '.join(known)}."
            )
        self.exit(2, f"{self.prog}: error: {message}\nSee `{self.prog} --help`.\n")


def _instead(option: str, known: Sequence[str]) -> str:
    """What to write in place of an unknown option.

    >>> _instead("--comm_round=50", ["--rounds"]), _instead("--ruonds", ["--rounds"])
    (" Did you mean '--rounds'?", " Did you mean '--rounds'?")
    >>> _instead("--alpha", ["--out"])
    ''
    """
    name = option.partition("=")[0]
    word = name.lstrip("-").replace("_", "-").lower()
    for answer, words in ELSEWHERE.items():
        if word in words.split() and answer in known:
            return f" Did you mean {answer!r}?"
        if word in words.split() and not answer.startswith("-") and "--on" in known:
            return f" {answer}"
    return nearest(name, known)


def build(words: Sequence[str] = ()) -> Parser:
    """The parser of the command line ``words``; without words, of all commands.

    The other commands are built only as far as this command line needs them: none if the first word
    is a command, and without their arguments if ``words`` do not name them, as in ``--help``.
    Plugins are loaded only if the first word is not a command of fedflat, since they may import
    heavy libraries.
    """
    top = Parser("fedflat", description="Federated learning that generalises.", epilog=EXAMPLES)
    top.add_argument("--version", action="version", version=f"fedflat {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, verb in builtin(words[0] if words else None).items():
        aliases = getattr(verb, "ALIASES", ())
        parser = commands.add_parser(name, help=verb.HELP, aliases=aliases)
        if not words or not {name, *aliases}.isdisjoint(words):
            _add(parser, verb)
    if words and not words[0].startswith("-") and words[0] not in commands.choices:
        for name, (summary, command) in from_plugins(words).items():
            if name in commands.choices:
                raise SettingError(
                    f"plugin: fedflat has a command {name!r} already. Register it under another "
                    "name."
                )
            _add(commands.add_parser(name, help=summary), command)
    return top


def builtin(only: str | None = None) -> dict[str, Any]:
    """The commands of fedflat: the modules in `verbs`, by name; ``only`` one if it is a command."""
    names = [module.name for module in iter_modules(verbs.__path__)]
    names = [only] if only in names else names
    return {name: import_module(f"{verbs.__name__}.{name}") for name in names}


def from_plugins(words: Sequence[str] = ()) -> dict[str, tuple[str, Command]]:
    """The summaries and the commands of installed plugins and of those that ``words`` name, by
    name."""
    from fedflat.registry.plugins import load_plugin
    from fedflat.registry.specs import registered

    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    early.add_argument("--plugin", action="append", default=[])
    try:
        named = early.parse_known_args(words)[0].plugin
    except argparse.ArgumentError:  # reported when the whole line is parsed
        named = []
    for plugin in named:
        load_plugin(plugin)
    return {entry.name: (entry.summary, entry.make()) for entry in registered("command")}


def _add(parser: argparse.ArgumentParser, verb: Any) -> None:
    verb.add_arguments(parser)
    lines = getattr(verb, "EXAMPLES", ())
    if lines:
        parser.epilog = "\n  ".join(["examples:", *lines])
        parser.epilog += QUOTE * any("(" in line for line in lines)
    parser.set_defaults(verb=verb)
    _finish(parser)


def _finish(parser: argparse.ArgumentParser) -> None:
    """Add the option of every command, and keep the options to propose in place of unknown ones."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if inner:
        for choice in inner[0].choices.values():
            _finish(choice)
        return
    parser.add_argument(
        "--plugin",
        action="append",
        metavar="FILE",
        help="Python file or module that registers names: my_methods.py or package.module; can be "
        "repeated",
    )
    parser.set_defaults(options=list(parser._option_string_actions))
