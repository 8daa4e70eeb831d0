"""``fedflat completion``: a script that completes commands, options and names in a shell."""

from __future__ import annotations

import argparse

HELP = "print a script that completes commands and names in bash, zsh or fish"
LOADS = ("fedflat.cli.completion",)
EXAMPLES = ("fedflat completion bash",)
PLACES = """Save the script where the shell finds it, then open a new shell:

  fedflat completion bash > ~/.local/share/bash-completion/completions/fedflat
  fedflat completion zsh > ~/.fedflat.zsh     (and add to ~/.zshrc: source ~/.fedflat.zsh)
  fedflat completion fish > ~/.config/fish/completions/fedflat.fish"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Print a script that completes commands, options and names.\n" + PLACES
    parser.add_argument(
        "shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from fedflat.cli.completion import SHELLS
    from fedflat.cli.parser import build

    print(SHELLS[args.shell](build()), end="")
    return 0
