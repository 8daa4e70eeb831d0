"""Who holds which classes, under several partitions of the digits."""

from __future__ import annotations

import torch

import fedflat as ff
from svg import Drawing

SHOWN = (
    ("iid()", "all clients are alike"),
    ("lda(10)", "most classes, unequal parts"),
    ("lda(1)", "a few classes each"),
    ("lda(0)", "one class each"),
    ("pathological(classes_per_client=2)", "two classes each"),
    ("quantity_skew(0.5)", "equal classes, unequal sizes"),
)
CLIENTS, CLASSES, STEP = 10, 10, 18


def counts(partition: str) -> list[list[int]]:
    """The number of examples of each class at each client."""
    fed = ff.parse(f"digits({partition}, clients={CLIENTS})", "data set").open(seed=0)
    found = []
    for client in range(CLIENTS):
        batch = fed.data(client).batch(torch.arange(fed.size(client)), torch.float32)
        found.append(torch.bincount(batch.targets, minlength=CLASSES).tolist())
    return found


def partitions() -> Drawing:
    """Six pictures of clients by classes; the area of a dot is a number of examples."""
    d = Drawing(
        720, 560, "Six partitions of ten classes among ten clients; larger dots are more examples"
    )
    for number, (text, meaning) in enumerate(SHOWN):
        x, y = 40 + 232 * (number % 3), 40 + 270 * (number // 3)
        d.text(
            x - 6,
            y - 14,
            text.replace("classes_per_client=", ""),
            at="start",
            code=True,
            size=13,
            colour="blue",
        )
        d.box(x - 9, y - 2, STEP * CLASSES, STEP * CLIENTS, fill="paper", r=3)
        table = counts(text)
        most = max(max(row) for row in table)
        for client, row in enumerate(table):
            for label, count in enumerate(row):
                if count:
                    r = max(0.9, 8.2 * (count / most) ** 0.5)
                    d.dot(x + STEP * label, y + 7 + STEP * client, r, fill="blue")
        d.text(x - 6, y + STEP * CLIENTS + 18, meaning, at="start", size=12, colour="muted")
    d.text(
        34,
        536,
        "rows: clients 0 to 9; columns: classes 0 to 9; the area of a dot is the number of examples",
        at="start",
        size=12,
        colour="muted",
    )
    return d
