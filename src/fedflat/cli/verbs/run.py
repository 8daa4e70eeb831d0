"""``fedflat run``: one method, with one seed or several."""

from __future__ import annotations

import argparse

from fedflat.cli.run_options import Options, experiment_options

HELP = "run one method"
LOADS = ("fedflat.cli.training",)
TAKES_FILE = True
EXAMPLES = (
    "fedflat run fedavg",
    'fedflat run "fedsam(rho=0.05) + swa()" --on "digits(lda(0))" --rounds 300 --out runs/first',
    "fedflat run fedavg --on \"csv('wine.csv', target='quality', owner='hospital')\" --lr 0.1",
    "fedflat run fedavg --on \"image_folder('pictures', size=[32, 32])\" --model cnn",
    "fedflat run experiment.toml --seed 1",
    "fedflat run --preset fedgloss/cifar10-cnn-alpha0 --rounds 500 --stretch",
)
PRESET = "preset"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The method or a preset, and the settings."""
    parser.description = "Run one method, with one seed or several."
    parser.usage = "%(prog)s METHOD [options]"
    method = parser.add_argument(
        "method",
        metavar="METHOD",
        help='such as "feddyn(alpha=0.01) + sam(rho=0.05)"; or an experiment file: see `fedflat init`',
    )
    options = Options(parser, PRESET)

    def name(text: str) -> str:
        method.required = False  # the preset takes its place
        return text

    options.add(
        PRESET,
        "--preset",
        type=name,
        metavar="NAME",
        help="a run of a paper, in place of METHOD (`fedflat list presets`); other options replace "
        "its settings",
    )
    options.add(
        PRESET,
        "--stretch",
        action="store_true",
        help="with --preset and --rounds: scale everything that is counted in rounds, such as "
        "warm-ups and decays",
    )
    experiment_options(options)


def run(args: argparse.Namespace) -> int:
    """Train, then print the table of results."""
    from fedflat.cli.training import train_new

    return train_new(args, [args.method])
