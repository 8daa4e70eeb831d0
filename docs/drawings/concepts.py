"""Drawings of a round, of a stack of pieces, of flatness and of simulated time."""

from __future__ import annotations

import math

from svg import Drawing


def round_of_training() -> Drawing:
    """One round: select, broadcast, train, reply, aggregate, step."""
    d = Drawing(
        720,
        340,
        "A round: the server sends its model to some clients and averages what they return",
    )
    d.box(10, 110, 190, 110, fill="pale-blue", line="blue")
    d.text(105, 140, "server", bold=True)
    d.text(105, 164, "model w", code=True)
    d.text(105, 188, "w <- w - mean(delta)", code=True, size=13)
    d.text(105, 208, "5  aggregate, step", size=12, colour="muted")
    for number, y in enumerate((20, 80, 140, 200, 260)):
        chosen = number in (0, 2, 3)
        d.box(
            470,
            y,
            230,
            48,
            fill="pale-green" if chosen else "none",
            line="green" if chosen else "line",
            dash=not chosen,
        )
        d.text(
            484,
            y + 20,
            f"client {number}",
            at="start",
            bold=chosen,
            colour="ink" if chosen else "muted",
        )
        said = "trains on its own data" if chosen else "not selected in this round"
        d.text(484, y + 38, said, at="start", size=12, colour="muted")
        if chosen:
            middle = y + 24
            d.path([(202, 150), (466, middle - 6)], colour="blue", arrow=True)
            d.path([(468, middle + 8), (206, 182)], colour="green", arrow=True)
    d.text(105, 40, "1  select a cohort", size=13)
    d.text(105, 60, "(here 3 of 5 clients)", size=12, colour="muted")
    d.text(330, 62, "2  broadcast w", size=13, colour="blue")
    d.text(330, 268, "4  reply delta_k = w - w_k", size=13, colour="green")
    d.text(585, 332, "3  local training: several steps of SGD", size=13)
    return d


def pieces() -> Drawing:
    """The stages of a client and of the server, with an example."""
    d = Drawing(
        720, 360, "Pieces of a method in the order of their stages, on the client and on the server"
    )
    rows = (
        (
            "client, in every local step",
            30,
            "green",
            (
                ("BATCH", "mixup"),
                ("TERM", "man"),
                ("PROBE", "sam"),
                ("CORRECT", "dual"),
                ("LIMIT", "clip"),
                ("DECAY", ""),
                ("OPTIMIZER", ""),
            ),
        ),
        (
            "server, in every round",
            160,
            "blue",
            (("PROBE", "stale_sam"), ("SCALE", ""), ("CORRECT", "dual"), ("OPTIMIZER", "adam")),
        ),
    )
    for title, y, colour, stages in rows:
        d.text(20, y, title, at="start", bold=True)
        first = "batch" if colour == "green" else "replies"
        d.text(20, y + 44, first, at="start", code=True, size=13)
        x = 92
        for stage, example in stages:
            d.path([(x - 12, y + 39), (x - 1, y + 39)], arrow=False)
            d.box(
                x,
                y + 16,
                76,
                46,
                fill=f"pale-{colour}" if example else "none",
                line=colour if example else "line",
                dash=not example,
            )
            d.text(x + 38, y + 34, stage, size=10, colour="muted")
            if example:
                d.text(x + 38, y + 52, example, code=True, size=12)
            x += 86
        d.path([(x - 12, y + 39), (x + 3, y + 39)], arrow=False)
        d.text(
            x - 10,
            y + 84,
            "w <- w - lr u" if colour == "green" else "w <- w - delta",
            at="end",
            code=True,
            size=13,
        )
    d.text(20, 290, "Each piece wraps the gradient function of the pieces to its left:", at="start")
    d.box(20, 302, 680, 46, fill="paper")
    d.text(
        34,
        330,
        "dual( sam( batch ) )(w)  =  g(w + rho g/||g||) - sigma_k + alpha (w - w_sent)",
        at="start",
        code=True,
        size=13,
    )
    return d


def _valley(x: float, centre: float, width: float, depth: float) -> float:
    return depth * math.exp(-(((x - centre) / width) ** 2))


def flatness() -> Drawing:
    """A sharp and a flat minimum; the test loss is the training loss, shifted."""
    d = Drawing(
        720,
        325,
        "A sharp and a flat minimum: where the test loss is shifted, the sharp one rises more",
    )

    def loss(x: float) -> float:
        return 200 - _valley(x, 190, 26, 150) - _valley(x, 500, 95, 145)

    def at(x: float, shift: float = 0.0) -> tuple[float, float]:
        return x, 275 - loss(x - shift)

    shift = 24.0
    d.path([at(x) for x in range(40, 690, 4)], colour="blue", width=2.5)
    d.path([at(x, shift) for x in range(40, 690, 4)], colour="orange", width=2, dash=True)
    for x, name in ((190.0, "sharp minimum"), (500.0, "flat minimum")):
        low, high = at(x), at(x, shift)
        d.dot(*low, 5, fill="blue")
        d.dot(*high, 5, fill="orange")
        d.path([low, (high[0], high[1] + 2 if high[1] > low[1] else high[1])], colour="muted")
        d.text(x, 292, name)
    d.text(180, 20, "solid: loss on the training data", at="start", colour="blue", size=13)
    d.text(
        180,
        42,
        "dashed: loss on test data, or on the mean of all clients",
        at="start",
        colour="orange",
        size=13,
    )
    d.text(40, 316, "parameters →", at="start", size=12, colour="muted")
    d.text(40, 20, "loss", at="start", size=12, colour="muted")
    return d


def simulated_time() -> Drawing:
    """Three servers with the same four clients: waiting, with a deadline, asynchronous."""
    d = Drawing(
        720, 420, "Simulated time: waiting for all clients, a deadline, and an asynchronous server"
    )
    speeds = (40, 60, 90, 210)
    left, scale = 130, 1.0
    y = 30
    d.text(20, y, "wait for all", at="start", bold=True)
    for k, s in enumerate(speeds):
        for start in (0, 210):
            d.box(left + start, y + 10 + 18 * k, s, 13, fill="pale-green", line="green", r=2)
        d.text(left - 10, y + 21 + 18 * k, f"client {k}", at="end", size=12, colour="muted")
    for end in (210, 420):
        d.path([(left + end * scale, y + 4), (left + end * scale, y + 86)], colour="blue", width=2)
    d.text(
        left,
        y + 102,
        "the server steps when the slowest client has replied",
        at="start",
        size=12,
        colour="blue",
    )
    y = 162
    d.text(20, y, "deadline", at="start", bold=True)
    for k, s in enumerate(speeds):
        for start in range(0, 500, 100):
            late = s > 100
            d.box(
                left + start,
                y + 10 + 18 * k,
                min(s, 100),
                13,
                fill="none" if late else "pale-green",
                line="line" if late else "green",
                r=2,
                dash=late,
            )
        d.text(left - 10, y + 21 + 18 * k, f"client {k}", at="end", size=12, colour="muted")
    for end in range(100, 600, 100):
        d.path([(left + end, y + 4), (left + end, y + 86)], colour="blue", width=2)
    d.text(left + 510, y + 76, "too late", at="start", size=12, colour="muted")
    y = 284
    d.text(20, y, "asynchronous", at="start", bold=True)
    ends = set()
    for k, s in enumerate(speeds):
        start = 0
        while start + s <= 500:
            d.box(left + start, y + 10 + 18 * k, s, 13, fill="pale-green", line="green", r=2)
            start += s
            ends.add(start)
        d.text(left - 10, y + 21 + 18 * k, f"client {k}", at="end", size=12, colour="muted")
    for number, end in enumerate(sorted(ends)):
        if number % 5 == 4:
            d.path([(left + end, y + 4), (left + end, y + 86)], colour="blue", width=2)
    d.text(
        left,
        y + 104,
        "the server steps after every fifth reply; nobody waits",
        at="start",
        size=12,
        colour="blue",
    )
    d.text(left, y + 124, "simulated seconds →", at="start", size=12, colour="muted")
    return d
