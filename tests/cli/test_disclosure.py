"""What leaves a client, as `fedflat list methods NAME` prints it. The common table compares it with
the replies of every method (tests/test_every_method.py)."""

from __future__ import annotations

import pytest

from fedflat.cli import main
from fedflat.client.instructions import LabelCounts
from fedflat.composition.disclosure import disclosure_text
from fedflat.registry.specs import parse


def lines(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["list", "methods", text]) == 0
    printed = capsys.readouterr().out.splitlines()
    return [" ".join(line.split()) for line in printed[printed.index("what leaves a client") :]]


def test_a_plain_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines("fedavg", capsys) == [
        "what leaves a client",
        "every round 1 vector update: parameters sent minus parameters after training",
        "every round statistics running statistics of batch normalisation, if the model has any",
        "every round numbers examples, examples processed, steps, training loss",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("scaffold", "every round 1 vector from scaffold()"),
        ("mime", "every round 1 vector gradient over all data"),
        ("naive_fedgloss", "every round 1 vector update: parameters sent minus parameters after"),
        ("fedcr", "every round statistics from fedcr(0.001): precision and weighted mean"),
        ("fedavg() + dp(noise=0, clip=0.5) + int8()", "changed by dp(clip=0.5, secret=False)"),
        ("fedavg() + int8()", "changed by int8(feedback=True)"),
        ("fedbn", "update: parameters sent minus parameters after training, without what private("),
        ("personal", "after the last round 1 vector for personal(): reply to tune(tests=True)"),
        (
            "cfsi",
            "before round 1 description spectra(): the server and every client learn the",
        ),
        ("fedseq", "Models go from client to client: the next one of a chain sees them."),
    ],
)
def test_what_else_is_reported(text: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert any(line in found for found in lines(text, capsys))


def test_two_exchanges_are_two_updates(capsys: pytest.CaptureFixture[str]) -> None:
    assert sum("1 vector update" in found for found in lines("naive_fedgloss", capsys)) == 2


def test_a_run_knows_more_than_a_method() -> None:
    method = parse("fedavg()", "method")
    text = disclosure_text(method, describers=[LabelCounts()], batch_norm=False)
    assert "how many examples of each class every client holds" in text
    assert "running statistics" not in text
    assert "nothing is sent" in disclosure_text(parse("centralised()", "method"))
