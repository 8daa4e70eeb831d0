"""``fedflat init``: a commented experiment file for ``fedflat run`` and ``compare``."""

from __future__ import annotations

import argparse

from fedflat.cli.run_options import Options, experiment_options

HELP = "write a commented experiment file (TOML) for run and compare"
LOADS = ("fedflat.cli.experiment_file",)
EXAMPLES = (
    "fedflat init",
    'fedflat init first.toml "fedsam(rho=0.05)" --on "digits(lda(0.1), clients=50)" --rounds 300',
    "fedflat init two.toml fedavg feddyn --seeds 3",
)
FILE = "experiment.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, the methods and the settings."""
    parser.description = (
        "Write an experiment file. It has the given methods and options, and all other options with "
        "their help as comments. `fedflat run FILE` or `fedflat compare FILE` runs it."
    )
    parser.usage = "%(prog)s [FILE.toml] [METHOD ...] [options]"
    parser.add_argument(
        "positional",
        metavar="FILE.toml, METHOD",
        nargs="*",
        help=f"file to write (default {FILE}), and methods (default fedavg)",
    )
    options = Options(parser)
    experiment_options(options)
    parser.set_defaults(groups=[*options.groups.values(), parser._optionals])


def run(args: argparse.Namespace) -> int:
    """Write the file; refuse to replace one."""
    from pathlib import Path

    from fedflat.cli.experiment_file import SUFFIX, written
    from fedflat.errors import SettingError

    files = [word for word in args.positional if word.lower().endswith(SUFFIX)]
    methods = [word for word in args.positional if word not in files]
    if len(files) > 1:
        raise SettingError(f"init writes one file, found {', '.join(files)}. Leave one out.")
    file = Path(files[0] if files else FILE)
    text = written(str(file), methods, args)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise SettingError(f"{file} exists. Give another name: fedflat init NAME.toml.") from None
    except OSError as error:
        raise SettingError(
            f"{file} cannot be written ({error.strerror or error}). Give another name."
        ) from None
    verb = "run" if len(methods) < 2 else "compare"
    print(f"{file} was written. Change it, then: fedflat {verb} {file}")
    return 0
