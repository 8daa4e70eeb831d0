"""One short run of every method on the same small task, for the curves on the method cards.

    python docs/curves.py            # runs what docs/curves.json lacks
    python docs/curves.py NAME ...   # runs these methods again

Each entry of docs/curves.json has the command that made it. All runs use one seed and default
arguments where these fit the task, so a curve shows how a method behaves and not how good it can
be.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path

from fedflat.cli import main
from fedflat.registry.specs import registered

FILE = Path(__file__).with_name("curves.json")
DIGITS = "--on digits(lda(1),clients=20)"
USUAL = f"{DIGITS} --rounds 60 --clients-per-round 5 --batch-size 16 --lr 0.05 --eval-every 2"
STREET = (
    "--on street(towns=2,clients=6,examples=6,tests=12,unseen_towns=0,unseen_weather='',width=48,height=24)"
    " --model small_unet(width=4) --rounds 20 --clients-per-round 3 --batch-size 4 --lr 0.1 --eval-every 2"
)
DOMAINS = USUAL.replace(DIGITS, "--on transformed(digits(lda(0.5),clients=20),ink=2)")
SPLIT = USUAL.replace(DIGITS, "--on digits(lda(1),clients=20,split=0.7)")
NORMALISED = (
    f"{DIGITS} --model resnet20(norm='batch') --rounds 10 --clients-per-round 5 --batch-size 16"
    " --lr 0.05 --eval-every 1 --drop-last"
)
OTHERS = {
    "cfsi": STREET,
    "domain_models": DOMAINS.replace("ink=2", "ink=4"),
    "fedala": SPLIT,
    "fedavg_ft": SPLIT,
    "fedasync": USUAL.replace("--rounds 60", "--rounds 300").replace(
        "--eval-every 2", "--eval-every 10"
    ),
    "fedbn": NORMALISED.replace("clients=20)", "clients=20,split=0.7)"),
    "fedcg": DOMAINS.replace("ink=2", "ink=4"),
    "fedcr": f"{USUAL} --model stochastic(mlp([32]))",
    "lab": STREET,
    "ladd": f"{STREET} --init pretrained(street(style='game',towns=2,clients=6,examples=6,tests=12,width=48,"
    "height=24),rounds=20,lr=0.1,styles=True)",
    "mcd": STREET.replace("--on street(", "--on with_source(street(").replace(
        "height=24)",
        "height=24),street(style='game',towns=2,clients=6,examples=6,width=48,height=24))",
    )
    + " --task twofold(segmentation())",
    "personal": SPLIT,
    "self_training": f"{USUAL} --init pretrained(digits(),rounds=2,lr=0.05)",
    "silobn": NORMALISED,
}
"""What the methods need that cannot run on the usual task."""
SCORES = ("accuracy", "miou", "personal")
TEXTS = {"cutout": "cutout(side=2)", "fedbn": "fedbn() + personal()"}
"""Methods whose default arguments do not fit the task: images of 8x8 pixels, private layers."""
NOT_DRAWN = {"chain": "chain() joins methods that you name; it has no rule of its own."}


def words(name: str) -> list[str]:
    """The command of one method, without the folder."""
    return [
        "run",
        TEXTS.get(name, name),
        *OTHERS.get(name, USUAL).split(" "),
        "--eval-last",
        "1",
        "--seed",
        "0",
    ]


def command(name: str) -> str:
    """The same as it is typed."""
    return shlex.join(["fedflat", *words(name)])


def measure(name: str) -> dict[str, object]:
    """Run one method and return its curve: rounds and scores of the reported model."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        status = main([*words(name), "--quiet", "--out", str(out)])
        if status:
            raise SystemExit(f"{command(name)} ended with status {status}")
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    score = next((key for key in SCORES if key in rows[0]), None)
    if score is None:
        raise SystemExit(f"{name}: no score in {list(rows[0])}")
    scored = {row["round"]: round(row[score], 4) for row in rows if score in row}
    return {
        "command": command(name),
        "score": score,
        "rounds": list(scored),
        "values": list(scored.values()),
    }


def names() -> list[str]:
    """All methods with a curve."""
    return [entry.name for entry in registered("method") if entry.name not in NOT_DRAWN]


def write(curves: dict[str, object]) -> None:
    """Write the file, one line for each method."""
    lines = [f"  {json.dumps(name)}: {json.dumps(curves[name])}" for name in sorted(curves)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    wanted = names()
    stale = [one for one in wanted if stored.get(one, {}).get("command") != command(one)]
    for one in sys.argv[1:] or stale:
        try:
            stored[one] = measure(one)
        except SystemExit as error:
            print(error, file=sys.stderr)
            continue
        write({name: stored[name] for name in wanted if name in stored})
