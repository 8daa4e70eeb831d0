"""Make the peers' virtual environments, or those of the peers named; what is there already is left
as it is.

    python benchmarks/peers/environments.py
    python benchmarks/peers/environments.py flower pfl

Each gets exactly the packages that `requirements/<peer>.txt` lists and nothing that these ask for,
so that no peer can bring another torch. A peer that does not install is named, and the others are
made all the same.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys

from scripts import HERE, PEERS, python_of


def make(peer: str) -> bool:
    """Whether the environment of this peer is there."""
    wanted = HERE / "requirements" / f"{peer}.txt"
    folder = HERE / ".venvs" / peer
    made = folder / "made.txt"
    if made.exists() and made.read_text() == wanted.read_text():
        print(f"{peer}: there already")
        return True
    shutil.rmtree(folder, ignore_errors=True)
    install = [
        str(python_of(peer)),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--requirement",
        str(wanted),
    ]
    for command in ([sys.executable, "-m", "venv", str(folder)], install):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            print(f"{peer}: skipped, it does not install here:\n{done.stdout[-2000:]}")
            return False
    shutil.copyfile(wanted, made)
    print(f"{peer}: made")
    return True


def main() -> None:
    """Make them, one after the other."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument(
        "peers", nargs="*", metavar="peer", help=f"out of {', '.join(PEERS)}; none: all of them"
    )
    output = ask.parse_args()
    unknown = [peer for peer in output.peers if peer not in PEERS]
    if unknown:
        ask.error(f"unknown peer {unknown[0]!r}. Choose from {', '.join(PEERS)}.")
    there = [make(peer) for peer in output.peers or PEERS]
    sys.exit(not all(there))


if __name__ == "__main__":
    main()
