"""Texts of methods, data sets, partitions, models and schedules, most of them wrong, drawn by a
seed.

for trial in texts(seed=0, count=25_000):
    assert check(trial) in ("read", "refused")
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from fedflat.errors import FedflatError
from fedflat.registry.specs import parse, registered

SECONDS = 2.0
"""The longest a text may keep a processor busy."""
LONG = 20_000
"""Letters after which a text is not made longer."""

RIGHT = {
    "method": [
        "fedavg",
        "fedsam(rho=0.05)",
        "feddyn(alpha=0.01) + sam(rho=warmup(0.001, 0.15, 2000))",
        "wima(window=3)",
        "fedgloss(rho_s=0.05, rho_l=0.05, beta=10) + wima(3)",
        "chain(feddyn(alpha=0.1), sam(rho=0.05))",
        "fedadam(lr=0.1, flavour='torch') + swa(start=0.5, cycle=2)",
        "mixup(alpha=0.3) + cutout(side=8) + clip(1)",
        "fedprox(mu=0.1) + median()",
        "krum(attackers=1, keep=2)",
        "scaffold() + ema(gamma=decay(0.9, 0.99))",
        "fedfsa(top=1, selection='reverse')",
        "fedala(share=0.8, layers=1)",
        "man(zeta=0.1)",
        "personal()",
    ],
    "data set": [
        "digits(lda(0), clients=50)",
        "cifar10(pathological(2), clients=100, split=0.7)",
        "synthetic(clients=1e6)",
        "digits(quantity_skew(1.5, kind='dirichlet'), seed=3)",
        "cifar100(pam(0.1, 10), clients=500)",
        "shakespeare(clients=100, target='sequence')",
        "femnist(by_class(0.2))",
        "stackoverflow(most=128)",
        "omniglot",
        "fashion_mnist(iid(), pool=True, split=0.5)",
    ],
    "partition": [
        "lda(0.1)",
        "pam()",
        "pathological(classes_per_client=2)",
        "quantity_skew()",
        "from_file('a.json')",
    ],
    "model": [
        "cnn",
        "mlp(hidden=[64, 64])",
        "resnet18(norm='batch')",
        "stochastic(mlp([8]), dim=4)",
    ],
    "schedule": [
        "decay(0.1, 0.998)",
        "warmup(0.001, 0.15, 2000)",
        "cosine(1, 0, 10)",
        "cyclic(1e-2, 1e-4, 4)",
        "steps([0, 2], [0.1, 0.01])",
    ],
    "initializer": ["fresh", "from_run('runs/x')", "pretrained(digits(), rounds=2)"],
    "topology": [
        "star",
        "chains(groups=4)",
        "clusters(3, shared='features')",
        "hierarchy(random_groups(2), every=5)",
        "bank(4, R='chains')",
        "asynchronous(buffer=2, staleness='hinge', a=1.5, mixing=decay(0.6, 0.99))",
    ],
    "instruction": ["train", "tune()", "gradient()", "evaluate", "describe(label_counts())"],
    "describer": ["label_counts", "label_counts()", "task2vec(draws=640, fisher='sample')"],
    "grouping": [
        "random(d_min=300, k_max=4)",
        "greedy(psi='labels', tau='gini', d_min=1000, k_max=11, start='uniform')",
        "kmeans(psi='task2vec', clusters=8)",
        "icg(50)",
        "alike(3, psi=classifier_weights(epochs=2))",
        "by_column('town')",
        "random_groups(3)",
        "given_groups([[0, 1], [2]])",
    ],
    "attack": [
        "gan(client=3, epochs=2, betas=[0.5, 0.9])",
        "label_flip(L_S=0.3, L=0.5, pairs=[[0, 2], [3, 5]])",
        "label_flip(count=10, among='intra')",
    ],
    "attacker": ["swaps([[0, 2], [3, 5]])"],
    "measure": ["epoch_ends(inside=False)"],
    "task": [
        "classification",
        "segmentation(ignore=255)",
        "next_character(ignore=0)",
        "regression()",
        "retrieval",
    ],
    "clock": [
        "devices()",
        "devices(speed=lognormal(100, 1), up=uniform(1e5, 1e6), deadline=60, extra=0.3)",
        "measured('a.json', present=on_off(600, 60))",
    ],
    "distribution": [
        "lognormal(100, sigma=0.5)",
        "uniform(1, 2.5)",
        "one_of([10, 100], shares=[0.9, 0.1])",
    ],
    "availability": [
        "on_off(on=600, off=60)",
        "on_off(5, 1, by='rounds')",
        "trace('a.json', every=86400)",
    ],
    "executor": ["in_process", "workers(workers=2, threads=1)", "stacked(threads=3)"],
    "metric": ["drift", "client_lambda(k=2)", "norms()"],
    "growth": ["linear(0.5)", "logarithmic(a=0.5, b=20)", "exponential(4.6e-4, b=5)"],
}

ATOMS = [
    "0",
    "-1",
    "1e3",
    "1e308",
    "-1e308",
    "1e-320",
    "1e999",
    "nan",
    "inf",
    "None",
    "True",
    "False",
    "''",
    "'fine'",
    "[]",
    "[[]]",
    "()",
    "{}",
    "{1: 2}",
    "{1}",
    "1j",
    "0.1.2",
    "...",
    "lambda: 0",
    "*x",
    "**x",
    "x",
    "_",
    "__import__('os')",
    "b'x'",
    "f'{1}'",
    "'\\x00'",
    "'\\ud800'",
    "9" * 30,
    "9" * 4000,
    "0x" + "f" * 5000,
    "9223372036854775808",
    "18446744073709551616",
    "0b1",
    "1_000",
    "٣",
    "²",
    "\uff13",
    "Ⅷ",
    "1e",
    "[1, 2, 3]",
    "[0.5]",
    "['a']",
    "[None]",
    "not 1",
    "~1",
    "+1",
    "--1",
    "1 if 1 else 2",
    "(yield)",
    "x := 1",
    "x.y",
    "x[0]",
    "1 + 1",
    "'a' + 'b'",
    "#",
    "\\",
]
LETTERS = "()[]{},=+-*'\"\\:;.#@!$ \t\n\r\0abcz019_eE²٣ßİﬁ\u202e\U0001f600\ud800"


@dataclass(frozen=True)
class Trial:
    """A text, and what it is read as."""

    text: str
    kind: str


def texts(seed: int, count: int) -> Iterator[Trial]:
    """``count`` texts: right ones, changed here and there, a little or out of all shape."""
    rng = random.Random(seed)
    names = {kind: [entry.name for entry in registered(kind)] for kind in RIGHT}
    takes = {
        entry.name: list(entry.signature.parameters) for kind in RIGHT for entry in registered(kind)
    }
    every = list(takes)
    for _ in range(count):
        kind = rng.choice(list(RIGHT))
        text = (
            rng.choice(RIGHT[kind])
            if rng.random() < 0.7
            else _call(rng, rng.choice(names[kind]), takes)
        )
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
            text = _changed(rng, text, every) if len(text) < LONG else text
        yield Trial(text, kind if rng.random() < 0.95 else rng.choice(list(RIGHT)))


def _call(rng: random.Random, name: str, takes: dict[str, list[str]], depth: int = 0) -> str:
    """A call of a known name with anything for arguments."""
    messages = []
    for _ in range(rng.randrange(4)):
        inner = rng.random() < 0.2 and depth < 3
        value = _call(rng, rng.choice(list(takes)), takes, depth + 1) if inner else _value(rng)
        messages.append(
            f"{rng.choice(takes[name])}={value}" if takes[name] and rng.random() < 0.7 else value
        )
    return f"{name}({', '.join(messages)})"


def _value(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.4:
        return rng.choice(ATOMS)
    if draw < 0.6:
        return repr(rng.uniform(-1, 1) * 10.0 ** rng.randrange(-30, 40))
    if draw < 0.8:
        return str(rng.randrange(-2, 12) * 10 ** rng.randrange(0, 25))
    return "[" + ", ".join(rng.choice(ATOMS) for _ in range(rng.randrange(4))) + "]"


def _changed(rng: random.Random, text: str, every: list[str]) -> str:
    place = rng.randrange(len(text) + 1)
    match rng.randrange(9):
        case 0:
            return text[:place] + rng.choice(LETTERS) + text[place:]
        case 1:
            return text[:place] + text[place + rng.randrange(1, 6) :]
        case 2:
            return _other_number(rng, text)
        case 3:
            return text.replace(rng.choice(every), rng.choice(every))
        case 4:
            deep = rng.choice((2, 50, 150, 300, 4000))
            left, right = rng.choice(
                [("(", ")"), ("[", "]"), ("-", ""), ("chain(", ")"), ("pretrained(", ")")]
            )
            return left * deep + text + right * deep
        case 5:
            return (
                text
                + rng.choice([" + ", ", ", " - ", " ", ""])
                + rng.choice(RIGHT[rng.choice(list(RIGHT))])
            )
        case 6:
            return text[:place] + text[place:].swapcase()
        case 7:
            return " + ".join([text] * rng.choice((2, 20, 400, 5000)))
        case _:
            return text[:place] + rng.choice(ATOMS) + text[place:]


def _other_number(rng: random.Random, text: str) -> str:
    """One of the numbers in a text becomes another thing."""
    places = [i for i, request in enumerate(text) if request.isdigit()]
    if not places:
        return text + _value(rng)
    begin = end = rng.choice(places)
    while end < len(text) and (text[end].isdigit() or text[end] in ".e-"):
        end += 1
    return text[:begin] + _value(rng) + text[end:]


def check(trial: Trial) -> str:
    """Read a text: "read" if what it says prints as a text of the same meaning, "refused" if a
    sentence says why not.

    Anything else is an AssertionError.
    """
    begun = time.process_time()
    try:
        value = parse(trial.text, trial.kind)
    except FedflatError as error:
        message = str(error)
        assert 0 < len(message.strip()) < 2000, f"{trial}: a message of {len(message)} letters"
        verdict = "refused"
    except BaseException as error:
        raise AssertionError(f"{trial}: {type(error).__name__}: {error}") from error
    else:
        assert parse(repr(value), trial.kind) == value, (
            f"{trial}: {value!r} is read as something else"
        )
        verdict = "read"
    spent = time.process_time() - begun
    assert spent < SECONDS, f"{trial}: took {spent:.1f} s"
    return verdict
