"""``fedflat analyse``: curvature, loss landscapes and robustness of trained models."""

from __future__ import annotations

import argparse

from fedflat.analysis.analysis import analyses
from fedflat.cli.options import data_dir_option, examples, memory, path, quiet_option, real, whole
from fedflat.settings.setting import Setting, settings_of

HELP = "compute curvature, loss landscapes and robustness of runs"
ALIASES = ("analyze",)
LOADS = ("fedflat.cli.analysis",)
EXAMPLES = (
    "fedflat analyse runs/first --curvature",
    "fedflat analyse runs/first runs/second --surface --points 21",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The runs, the analyses and their options."""
    parser.description = (
        "Compute analyses of runs and write them as JSON into RUN/analysis/, where "
        "`fedflat report` finds them. Results that exist are not computed again. After Ctrl-C the "
        "same command continues."
    )
    parser.usage = "%(prog)s RUN [RUN ...] [options]"
    parser.add_argument(
        "folders", type=path, metavar="RUN", nargs="+", help="folders of runs or studies"
    )
    kinds = parser.add_argument_group("analyses")
    where = parser.add_argument_group("model and data")
    where.add_argument(
        "--model", metavar="NAME", help="which model: server, swa, ... (default: the reported one)"
    )
    where.add_argument(
        "--set", default="test", metavar="SET", help="data: test (default), train, or client:K"
    )
    where.add_argument(
        "--examples",
        type=examples,
        default=1000,
        metavar="N",
        help="number of examples, drawn by the seed (default 1000); all: the whole set",
    )
    where.add_argument(
        "--seed",
        type=whole,
        default=0,
        metavar="S",
        help="seed of subsets, directions and probes (default 0)",
    )
    data_dir_option(where)
    _add_analyses(kinds, parser.add_argument_group("precision"))
    quiet_option(parser.add_argument_group("output"))


def _add_analyses(kinds: argparse._ArgumentGroup, precision: argparse._ArgumentGroup) -> None:
    """Add an option for each analysis of fedflat, and one for each of its fields that has one."""
    for kind, analysis in analyses(plugins=False).items():
        if analysis.always:
            continue
        flag = "--" + (analysis.option or kind).replace("_", "-")
        help = analysis.summary().replace("%", "%%")
        dest = f"analysis_{kind}"
        if analysis.values is None:
            kinds.add_argument(flag, dest=dest, action="store_const", const=True, help=help)
        elif analysis.values == "?":
            kinds.add_argument(
                flag,
                dest=dest,
                nargs="?",
                type=whole,
                const=True,
                metavar=analysis.metavar,
                help=help,
            )
        else:
            kinds.add_argument(
                flag, dest=dest, nargs=analysis.values, metavar=analysis.metavar, help=help
            )
        if analysis.values is None:
            for one in settings_of(analysis):
                _add_field(precision, one)
    kinds.add_argument(
        "--analyses",
        metavar="TEXT",
        help="analyses as text, also those of plugins: 'NAME(OPTION=VALUE), ...'; "
        "`fedflat list analyses` names them",
    )


def _add_field(group: argparse._ArgumentGroup, one: Setting) -> None:
    flag = f"-{one.name}" if len(one.name) == 1 else one.option
    help = one.described.replace("%", "%%")
    if one.kind == "bool":
        group.add_argument(flag, dest=one.name, action="store_const", const=True, help=help)
        return
    read = {"int": whole, "float": real, "bytes": memory}.get(one.about.unit or one.kind, str)
    group.add_argument(flag, dest=one.name, type=read, metavar=one.about.metavar, help=help)


def run(args: argparse.Namespace) -> int:
    """Compute the analyses and print a line for each."""
    from fedflat.cli.analysis import analyse

    return analyse(args)
