"""A profile as a flame graph: one HTML file that asks no network for anything, and the format of speedscope.

In the graph each box is a function, as wide as the time in it, above those it called; its colour is its room.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass, field
from typing import Any

from fedflat.onepage import one_page
from fedflat.profiling.profile import Profile, shared_depth
from fedflat.profiling.report import cells, remarks
from fedflat.profiling.rooms import ROOMS, room_of
from fedflat.profiling.sampler import Frame, Stack
from fedflat.version import __version__

LEAST = 1e-4
"""The share of all time below which a box is left out: nobody could see it, however near."""

_BODY = """<main>
<h1>Where the time of {title} went</h1>
{table}
{remarks}
<h2 id="heading">Flame graph</h2>
<p class="note">Each box is a function, as wide as the time in it, above those it called. Click or press Enter to come
nearer, Escape to go back; arrow keys go from box to box.</p>
<p id="said" role="status"></p>
<div id="flame" role="group" aria-labelledby="heading"></div>
<noscript><p>The graph is drawn by the page's own script, which is switched off.</p></noscript>
</main>"""


@dataclass
class Node:
    """A box: a function where it was called from, or a process."""

    name: str
    room: int | None = None
    """Its place in `ROOMS`; a process has none."""
    seconds: float = 0.0
    inside: dict[Frame, Node] = field(default_factory=dict)

    def add(self, stack: Stack, around: Stack, seconds: float) -> None:
        """More time at the end of ``stack``; ``around`` is the stack that leads here."""
        self.seconds += seconds
        if stack:
            frame, here = stack[0], (*around, stack[0])
            if frame not in self.inside:
                self.inside[frame] = Node(str(frame), ROOMS.index(room_of(here)))
            self.inside[frame].add(stack[1:], here, seconds)

    def boxes(self, least: float) -> list[Any]:
        """Name, room, seconds, and the boxes inside that are worth drawing, in the order of their names."""
        inside = sorted(self.inside.values(), key=lambda node: node.name)
        drawn = [node.boxes(least) for node in inside if node.seconds >= least]
        return [self.name, self.room, round(self.seconds, 6), drawn]


def tree(profile: Profile) -> Node:
    """All boxes; a process each below the first."""
    root = Node("everything")
    for name, samples in profile.processes.items():
        process = root.inside[Frame("", name)] = Node(name)
        shared = shared_depth(samples)
        for stack, seen in samples.stacks.items():
            process.add(stack[shared:], stack[:shared], seen.seconds)
        root.seconds += process.seconds
    return root


def page(profile: Profile, title: str) -> str:
    """The flame graph, with the table of rooms."""
    root = tree(profile)
    body = _BODY.format(
        title=html.escape(title),
        table=_table(profile),
        remarks="\n".join(f'<p class="note">{html.escape(line)}</p>' for line in remarks(profile)),
    )
    return one_page(
        f"Profile of {title}", body, {"rooms": ROOMS, "root": root.boxes(LEAST * root.seconds)},
        package="fedflat.profiling", styles=["flame.css"], scripts=["flame.js"],
    )  # fmt: skip


def _table(profile: Profile) -> str:
    columns = [profile.rooms] + ([profile.worker_rooms] if profile.workers else [])
    over = ["this process", "all workers together"][: len(columns)]
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("seconds", "share %", "s a round") * len(over))
    rows = [
        f'<tr><th scope="row"><span class="room room{ROOMS.index(room)}"></span>{room}</th>'
        + "".join(f"<td>{cell}</td>" for column in columns for cell in cells(column, room, profile.rounds))
        + "</tr>"
        for room in ROOMS
        if any(column[room] for column in columns)
    ]
    first = "".join(f'<th colspan="3" scope="colgroup">{name}</th>' for name in over)
    top = f'<tr><td></td>{first}</tr>\n<tr><th scope="col">room</th>{heads}</tr>'
    return "\n".join(["<table>", "<thead>", top, "</thead>", "<tbody>", *rows, "</tbody>", "</table>"])


def speedscope(profile: Profile, title: str) -> str:
    """The samples in the file format of speedscope, which many tools read: a profile for each process."""
    places: dict[Frame, int] = {}
    profiles = []
    for name, samples in profile.processes.items():
        stacks = {stack: seen.seconds for stack, seen in sorted(samples.stacks.items())}
        profiles.append({
            "type": "sampled", "name": name, "unit": "seconds", "startValue": 0, "endValue": sum(stacks.values()),
            "samples": [[places.setdefault(frame, len(places)) for frame in stack] for stack in stacks],
            "weights": list(stacks.values()),
        })  # fmt: skip
    return json.dumps({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": title,
        "exporter": f"fedflat {__version__}",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": str(frame)} for frame in places]},
        "profiles": profiles,
    })  # fmt: skip
