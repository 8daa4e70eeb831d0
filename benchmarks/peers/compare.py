"""fedflat next to other simulators, on the same work: alive at the same time, working one at a
time, in turn.

    python benchmarks/peers/compare.py --workload w1 --repeats 5
    python benchmarks/peers/compare.py --workload w3 --peers flower fedjax --json out.json

Prints samples a second (median and range), the ratio to bare PyTorch, and how many times as fast
fedflat is; both are medians of ratios within one repeat. See README.md for the environments, and
for what each is set to.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from same_work import WORKLOADS
from scripts import OURS, PEERS, command, python_of

sys.path.append(str(Path(__file__).parents[1]))
from process import Answer, Failed, Participant


def begin(names: Sequence[str], workload: str) -> dict[str, Participant]:
    """Start them, one after the other; say which cannot take part, and why."""
    there: dict[str, Participant] = {}
    for name in names:
        if not python_of(name).exists():
            print_line(
                f"{name} is left out: it has no environment. Make it with benchmarks/peers/environments.py {name}"
            )
            continue
        try:
            there[name] = Participant(name, command(name, workload), WORKLOADS[workload].samples)
        except Failed as error:
            print_line(f"{name} is left out: {error}")
        else:
            print_line(f"{name} is ready: {there[name].first['setting']}")
    return there


def measure(there: dict[str, Participant], repeats: int, seconds: float) -> dict[str, list[Answer]]:
    """Answers of each, taken in turn. A turn has as many rounds as take about so many seconds, at
    least one."""
    rounds = {name: max(1, round(seconds / one.ask(1)["seconds"])) for name, one in there.items()}
    answers: dict[str, list[Answer]] = {name: [] for name in there}
    for repeat in range(repeats):
        for name, one in there.items():
            answers[name].append(one.ask(rounds[name]))
            print_line(
                f"repeat {repeat + 1} of {repeats}: {name} took {answers[name][-1]['seconds']:.1f} s"
            )
    return answers


def speeds(answers: Sequence[Answer]) -> list[float]:
    """Samples a second, in each repeat."""
    return [answer["samples"] / answer["seconds"] for answer in answers]


def figures(
    there: dict[str, Participant], answers: dict[str, list[Answer]]
) -> dict[str, dict[str, Any]]:
    """Everything there is to say about each."""
    bare, ours = speeds(answers["bare"]), speeds(answers["fedflat"])
    found = {}
    for name, one in there.items():
        mine = speeds(answers[name])
        found[name] = {
            "setting": one.first["setting"],
            "versions": one.first["versions"],
            "samples_per_second": mine,
            "of_bare": [a / b for a, b in zip(mine, bare, strict=True)],
            "fedflat_is": [a / b for a, b in zip(ours, mine, strict=True)],
            "start_up": max(0.0, one.until_warm - one.first["samples"] / statistics.median(mine)),
            "peak_bytes": one.peak(),
            "rounds": one.rounds,
            "losses": [one.first["loss"], answers[name][-1]["loss"]],
            "turns": answers[name],
        }
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """A row for each, in Markdown, and below what each was set to."""
    rows = [
        (
            "",
            "samples/s",
            "to bare PyTorch",
            "fedflat is ... times as fast",
            "start-up",
            "memory",
            "loss",
        ),
        ("---", "---:", "---:", "---:", "---:", "---:", "---"),
    ]
    for name, it in found.items():
        first, last = it["losses"]
        rows.append(
            (
                name,
                spread(it["samples_per_second"], ",.0f"),
                spread(it["of_bare"], ".2f"),
                "" if name == "fedflat" else spread(it["fedflat_is"], ".2f"),
                f"{it['start_up']:.0f} s",
                f"{it['peak_bytes'] / 1e9:.1f} GB",
                f"{first:.3f} to {last:.3f} in {it['rounds']} rounds",
            )
        )
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    for name, it in found.items():
        versions = ", ".join(f"{package} {version}" for package, version in it["versions"].items())
        lines.append(f"* {name}: {it['setting']} ({versions})")
    return "\n".join(lines)


def spread(values: Sequence[float], form: str) -> str:
    """The median, the smallest and the largest."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def print_line(text: str) -> None:
    """Tell how it goes, apart from the table."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--workload", choices=WORKLOADS, default="w1")
    ask.add_argument("--repeats", type=int, default=5)
    ask.add_argument(
        "--peers",
        nargs="*",
        choices=PEERS,
        default=PEERS,
        help="none: only bare PyTorch and fedflat",
    )
    ask.add_argument(
        "--seconds", type=float, default=2.0, help="about how long a turn is; at least one round"
    )
    ask.add_argument("--json", help="also write the figures to this file")
    output = ask.parse_args()
    there = begin([*OURS, *output.peers], output.workload)
    try:
        found = figures(there, measure(there, output.repeats, output.seconds))
    finally:
        for one in there.values():
            one.close()
    machine = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "processor": platform.machine(),
    }
    print(
        f"{output.workload}, {output.repeats} repeats, Python {machine['python']}, {machine['cpus']} processors\n"
    )
    print(table(found))
    if output.json:
        with open(output.json, "w") as stream:
            json.dump(
                {"workload": output.workload, "machine": machine, "participants": found},
                stream,
                indent=1,
            )


if __name__ == "__main__":
    main()
