"""Drawings of topologies, of client groups and of adaptation without labels."""

from __future__ import annotations

from itertools import pairwise

from svg import Drawing

KINDS = ("blue", "orange", "green", "purple")


def _server(d: Drawing, x: float, y: float, text: str = "server", colour: str = "blue") -> None:
    d.box(x - 36, y - 14, 72, 28, fill=f"pale-{colour}", line=colour)
    d.text(x, y + 5, text, size=13)


def _client(d: Drawing, x: float, y: float, colour: str = "green") -> None:
    d.dot(x, y, 11, fill=f"pale-{colour}", line=colour)


def _both(d: Drawing, a: tuple[float, float], b: tuple[float, float], colour: str = "line") -> None:
    """Arrows in both directions, side by side."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = (dx * dx + dy * dy) ** 0.5
    sx, sy = -3 * dy / length, 3 * dx / length
    d.path([(a[0] + sx, a[1] + sy), (b[0] + sx, b[1] + sy)], colour=colour, arrow=True)
    d.path([(b[0] - sx, b[1] - sy), (a[0] - sx, a[1] - sy)], colour=colour, arrow=True)


def topologies() -> Drawing:
    """Star, chains, hierarchy and bank."""
    d = Drawing(720, 520, "Star, chains, hierarchy and bank: who sends models to whom")
    _star(d, 180, 40)
    _chains(d, 540, 40)
    _hierarchy(d, 180, 300)
    _bank(d, 540, 300)
    return d


def _star(d: Drawing, x: float, y: float) -> None:
    d.text(x, y - 12, "star()", code=True, bold=True)
    _server(d, x, y + 20)
    for place in (-120, -60, 0, 60, 120):
        _both(d, (x + place * 0.25, y + 38), (x + place, y + 130), "blue")
        _client(d, x + place, y + 148)
    d.text(x, y + 190, "one model; every client of the cohort", size=12, colour="muted")
    d.text(x, y + 206, "trains it and replies to the server", size=12, colour="muted")


def _chains(d: Drawing, x: float, y: float) -> None:
    d.text(x, y - 12, "chains(groups=2)", code=True, bold=True)
    _server(d, x, y + 20)
    for side in (-1, 1):
        places = [(x + side * 50, y + 80), (x + side * 110, y + 115), (x + side * 50, y + 150)]
        d.path(
            [(x + side * 12, y + 36), (places[0][0] - side * 6, places[0][1] - 12)],
            colour="blue",
            arrow=True,
        )
        for a, b in pairwise(places):
            d.path(
                [
                    (a[0] + (b[0] - a[0]) * 0.2, a[1] + (b[1] - a[1]) * 0.2 + 2),
                    (a[0] + (b[0] - a[0]) * 0.8, a[1] + (b[1] - a[1]) * 0.8),
                ],
                colour="green",
                arrow=True,
            )
        end = places[-1]
        d.path(
            [(end[0] - side * 12, end[1] - 4), (x + side * 6, y + 130), (x + side * 6, y + 38)],
            colour="blue",
            arrow=True,
        )
        for place in places:
            _client(d, *place)
    d.text(x, y + 190, "clients of a superclient train one after", size=12, colour="muted")
    d.text(x, y + 206, "the other; the last one replies", size=12, colour="muted")


def _hierarchy(d: Drawing, x: float, y: float) -> None:
    d.text(x, y - 12, "hierarchy(2, every=5)", code=True, bold=True)
    d.box(x - 60, y + 4, 120, 28, fill="none", dash=True)
    d.text(x, y + 23, "mean, every 5 rounds", size=11, colour="muted")
    for side, colour in ((-1, "orange"), (1, "purple")):
        centre = x + side * 85
        _both(d, (x + side * 30, y + 34), (centre, y + 58), "line")
        _server(d, centre, y + 74, f"model {1 if side < 0 else 2}", colour)
        for place in (-45, 0, 45):
            _both(d, (centre + place * 0.4, y + 91), (centre + place, y + 128), colour)
            _client(d, centre + place, y + 146, colour)
    d.text(x, y + 186, "each cluster is a star with its own model;", size=12, colour="muted")
    d.text(x, y + 202, "clusters(...) never averages them", size=12, colour="muted")


def _bank(d: Drawing, x: float, y: float) -> None:
    d.text(x, y - 12, "bank(3, R=5)", code=True, bold=True)
    for number, colour in enumerate(("orange", "purple")):
        d.box(x - 100 + 110 * number, y + 6, 90, 26, fill=f"pale-{colour}", line=colour)
        d.text(x - 55 + 110 * number, y + 24, f"model {number + 1}", size=13)
    for number in range(3):
        left = x - 150 + 105 * number
        d.box(left, y + 96, 90, 56, fill="none", dash=True)
        for k in range(3):
            _client(d, left + 18 + 27 * k, y + 124)
        d.text(left + 45, y + 168, f"superclient {number + 1}", size=11, colour="muted")
    d.path([(x - 65, y + 34), (x - 105, y + 92)], colour="orange", arrow=True)
    d.path([(x - 45, y + 34), (x - 5, y + 92)], colour="orange", dash=True, arrow=True)
    d.path([(x + 60, y + 34), (x + 100, y + 92)], colour="purple", arrow=True)
    d.path([(x + 50, y + 34), (x - 90, y + 92)], colour="purple", dash=True, arrow=True)
    d.text(x, y + 190, "solid: this round; dashed: the next one. Models", size=12, colour="muted")
    d.text(x, y + 206, "move between superclients; merged every R rounds", size=12, colour="muted")


def groups() -> Drawing:
    """The same clients as superclients and as clusters."""
    d = Drawing(
        720,
        300,
        "The same clients grouped in two ways: different clients together, or similar clients together",
    )
    kinds = (0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3)
    d.text(110, 24, "twelve clients", bold=True)
    d.text(110, 44, "colour: what their data are like", size=12, colour="muted")
    for number, kind in enumerate(kinds):
        d.dot(
            50 + 40 * (number % 4),
            85 + 45 * (number // 4),
            13,
            fill=f"pale-{KINDS[kind]}",
            line=KINDS[kind],
        )
    d.text(350, 24, "superclients", bold=True)
    d.text(350, 44, "greedy, kmeans, icg", code=True, size=12, colour="muted")
    for group in range(3):
        d.box(255, 62 + 52 * group, 190, 44, fill="paper")
        for kind in range(4):
            d.dot(
                280 + 46 * kind, 84 + 52 * group, 13, fill=f"pale-{KINDS[kind]}", line=KINDS[kind]
            )
            if kind < 3:
                d.path(
                    [(296 + 46 * kind, 84 + 52 * group), (312 + 46 * kind, 84 + 52 * group)],
                    arrow=True,
                )
    d.text(350, 236, "a group holds all kinds of data,", size=12, colour="muted")
    d.text(350, 252, "so its chain trains like one big client", size=12, colour="muted")
    d.text(590, 24, "clusters", bold=True)
    d.text(590, 44, "alike, by_column", code=True, size=12, colour="muted")
    for kind in range(4):
        d.box(520, 62 + 40 * kind, 140, 34, fill="paper")
        for k in range(3):
            d.dot(545 + 44 * k, 79 + 40 * kind, 13, fill=f"pale-{KINDS[kind]}", line=KINDS[kind])
    d.text(590, 252, "a group holds one kind of data", size=12, colour="muted")
    d.text(590, 268, "and gets its own model", size=12, colour="muted")
    return d


def adaptation() -> Drawing:
    """LADD in four steps."""
    d = Drawing(720, 420, "Learning without labels at the clients, in four steps")
    steps = (
        ("1  styles", "clients", "27 numbers each:", "brightness, colours"),
        ("2  first model", "server", "own labelled images", "in clients' styles"),
        ("3  clusters", "server", "similar styles", "form a cluster"),
        ("4  self-training", "clients", "the teacher labels,", "clients train"),
    )
    for number, (title, who, one, two) in enumerate(steps):
        x = 12 + 178 * number
        colour = "blue" if who == "server" else "green"
        d.box(x, 40, 160, 300, fill="none")
        d.text(x + 80, 64, title, bold=True)
        d.box(x + 46, 76, 68, 24, fill=f"pale-{colour}", line=colour)
        d.text(x + 80, 93, who, size=12)
        d.text(x + 80, 306, one, size=12, colour="muted")
        d.text(x + 80, 322, two, size=12, colour="muted")
        if number < 3:
            d.path([(x + 161, 190), (x + 177, 190)], arrow=True)
    for k, kind in enumerate((0, 1, 0, 3)):
        y = 124 + 42 * k
        d.box(34, y, 50, 30, fill=f"pale-{KINDS[kind]}", line=KINDS[kind], r=2)
        d.path([(90, y + 15), (124, y + 15)], colour="muted", arrow=True)
        d.text(146, y + 20, "…", size=16)
    for k, kind in enumerate((0, 1, 3)):
        y = 130 + 52 * k
        d.box(206, y, 50, 34, fill=f"pale-{KINDS[kind]}", line=KINDS[kind], r=2)
        d.text(231, y + 22, "photo", size=11)
        d.box(276, y, 50, 34, fill="paper", r=2)
        d.text(301, y + 22, "label", size=11)
    for k, kind in enumerate((0, 1, 3)):
        y = 122 + 58 * k
        d.box(386, y, 126, 44, fill="paper")
        for n in range(3 if kind == 0 else 2):
            d.dot(412 + 36 * n, y + 22, 12, fill=f"pale-{KINDS[kind]}", line=KINDS[kind])
    d.box(566, 122, 116, 32, fill="pale-blue", line="blue")
    d.text(624, 143, "teacher", size=13)
    d.path([(624, 156), (624, 178)], arrow=True)
    d.box(566, 180, 116, 32, fill="paper")
    d.text(624, 201, "pseudo-labels", size=12)
    d.path([(624, 214), (624, 236)], arrow=True)
    d.box(566, 238, 116, 32, fill="pale-green", line="green")
    d.text(624, 259, "client trains", size=12)
    d.path([(690, 254), (702, 254), (702, 138), (684, 138)], colour="muted", dash=True, arrow=True)
    d.text(
        360,
        372,
        "Steps 1 to 3 happen once, before the first round. Step 4 is every round; the teacher is a copy,",
        size=12,
        colour="muted",
    )
    d.text(360, 390, "later a mean of copies, of the cluster's model.", size=12, colour="muted")
    return d
