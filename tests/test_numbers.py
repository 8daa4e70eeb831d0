"""Numbers as users give them: one check of ranges, NumPy's scalars as Python's, 1e3 is whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedflat as ff
from experiments.small import experiment
from fedflat.cli import main
from fedflat.composition.method import method
from fedflat.core.schedules import decay
from fedflat.errors import LARGEST, MOST, FedflatError, SettingError, number, shown
from fedflat.experiments.experiment import EvaluationSchedule
from fedflat.registry.specs import parse


def test_there_is_a_limit_by_default() -> None:
    number("sam", "rho", LARGEST)
    number("wima", "window", MOST, whole=True)
    with pytest.raises(SettingError, match=r"rho must be a number at most 1e\+30, found 1e\+308"):
        number("sam", "rho", 1e308)
    with pytest.raises(
        SettingError, match=r"window must be a whole number at most 1e\+15, found 1000000000000001"
    ):
        number("wima", "window", MOST + 1, whole=True)
    with pytest.raises(SettingError, match="found a number of more than 6020 digits"):
        number("sam", "rho", 16**5000)
    assert len(shown("x" * 10**6)) == 80


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("method", f"fedsam(rho=0x{'f' * 5000})", "too large for a number"),
        ("method", "fedsam(rho=1e308)", "at most 1e+30, found 1e+308"),
        ("method", "wima(9223372036854775808)", "at most 1e+15, found 9223372036854775808"),
        ("data set", "digits(seed=9223372036854775808)", "at most 9.22337e+18"),
        (
            "data set",
            "synthetic(features=1e7, examples=1e7)",
            "features times examples and classes",
        ),
        ("model", "mlp(hidden=[99999999999])", "at most 1e+07, found 99999999999"),
        ("partition", "from_file(5)", "the path of a JSON file is needed, in quotes, found 5"),
        ("method", "FedSAM(rho=0.1)", "Did you mean 'fedsam'?"),
        ("method", "-" * 9000 + "1", "nested too deeply"),
        ("method", "fedavg" * 2000, "at most 10000 characters"),
    ],
)
def test_texts_out_of_range(kind: str, text: str, message: str) -> None:
    with pytest.raises(FedflatError) as caught:
        parse(text, kind)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_layer_too_wide_for_its_inputs_is_refused_before_it_is_made() -> None:
    with pytest.raises(
        SettingError, match="a linear layer: its weights, from 1000 to 10000000 numbers"
    ):
        ff.mlp(hidden=[10**7]).build((1000,), 10)


def test_an_exponent_makes_a_whole_number_whole() -> None:
    assert parse("warmup(0.1, 0.2, 1e3)", "schedule") == ff.warmup(0.1, 0.2, 1000)
    assert repr(parse("synthetic(clients=1e6)", "data set")) == "synthetic(clients=1000000)"
    assert repr(parse("fedsam(rho=1.0)", "method")) == "fedsam(rho=1.0)"
    assert parse("fedsam(rho=1e-3)", "method") == ff.fedsam(rho=0.001)
    with pytest.raises(SettingError, match="whole number"):
        parse("warmup(0.1, 0.2, 1.5e0)", "schedule")


def test_numpys_numbers_are_numbers_and_print_plainly() -> None:
    made = (
        ff.fedsam(rho=np.float32(0.5))
        + ff.wima(np.int64(3))
        + ff.prox(decay(np.float64(0.5), np.array(0.25)))
    )
    assert repr(made) == "fedsam(rho=0.5) + wima(window=3) + prox(mu=decay(0.5, 0.25))"
    assert parse(repr(made), "method") == made
    assert repr(ff.mlp(hidden=[np.int32(8)])) == "mlp(hidden=[8])"
    assert (
        repr(ff.digits(ff.lda(np.float64(0.5)), clients=np.int16(9)))
        == "digits(lda(0.5), clients=9)"
    )
    exp = experiment(
        seed=np.int64(3), rounds=np.uint8(2), evaluate=EvaluationSchedule(every=np.int64(1))
    )
    assert json.loads(json.dumps(exp.as_json()))["seed"] == 3
    assert type(exp.rounds) is type(exp.evaluate.every) is int
    for bad in (np.float64("nan"), np.bool_(True), np.zeros(2)):
        with pytest.raises(SettingError):
            ff.fedsam(rho=bad)


def test_seeds_of_numpy_run(tmp_path: Path) -> None:
    on = "digits(clients=20)"
    each = ff.compare(
        ["fedavg"],
        on=on,
        rounds=1,
        seeds=list(np.arange(2)),
        clients_per_round=np.int64(2),
        threads=np.int64(1),
        executor="in-process",
        out=tmp_path / "study",
    )
    assert [result.seed for result in each] == [0, 1]
    with pytest.raises(SettingError, match="seeds must be how many, or a list of different ones"):
        ff.compare(["fedavg"], on=on, rounds=1, seeds=1.5)  # type: ignore[arg-type]


def test_a_rate_that_grows_out_of_all_numbers_is_refused_before_the_first_round() -> None:
    assert decay(0.1, 3.0)(10_000) == float("inf")
    assert decay(0.0, 3.0)(10_000) == 0
    assert decay(-0.1, 3.0)(10_000) == float("-inf")
    settings = {"on": "digits(clients=20)", "clients_per_round": 2}
    with pytest.raises(
        SettingError, match=r"lr=decay\(0.1, 3.0\) in round 10000 must be a number at most 1e\+30"
    ):
        ff.run("fedavg", rounds=10_000, lr="decay(0.1, 3.0)", **settings)
    with pytest.raises(SettingError, match="rho=decay"):
        ff.run("fedsam(rho=decay(0.1, 3.0))", rounds=10_000, **settings)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--lr 1e308", "lr must be a number of at least 0 and at most 1e+30"),
        ("--threads 2147483648", "threads must be a whole number of at least 1 and at most 1024"),
        ("--workers 100000", "workers must be a whole number of at least 0 and at most 1024"),
        ("--seeds 10001", "seeds must be a whole number of at least 1 and at most 10000"),
        ("--virtual 1e12", "virtual must be a whole number of at least 1 and at most 1e+07"),
        (
            f"--batch-size {'9' * 30}",
            "batch size must be a whole number of at least 1 and at most 1e+15",
        ),
        (f"--batch-size {'9' * 99}", "must be a whole number, such as 100 or 1e3, found '999"),
        (f"--state-memory {'9' * 400}", "must be a size such as 1GB or 500MB, found '999"),
        ("--rounds 1.5", "must be a whole number"),
        ("--rounds ٣", "must be a whole number"),
        ("--checkpoint-every nan", "checkpoint_every must be a number"),
        ("--data-dir ~nobodyhere/x", "nobodyhere has no home folder"),
        (f"--out {'a' * 300}", "with names of at most 255 bytes"),
        ("--model mlp(hidden=[99999999999])", "at most 1e+07"),
        ("--seed 9223372036854775808", "at most 9.22337e+18"),
    ],
)
def test_command_lines_out_of_range(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = main(["run", "fedavg", *words.split(" ", 1), "--quiet"])
    except SystemExit as ended:
        status = ended.code  # type: ignore[assignment]
    assert status == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_knows_1e3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fedavg", "--rounds", "1e3", "--clients-per-round", "1e3"]) == 2
    assert "a round selects 1000 clients" in capsys.readouterr().err


def test_a_replay_file_nested_deep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    assert main(["run", "fedavg", "--replay", str(deep)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_method_defined_again_takes_the_place_of_the_first_but_not_of_ours() -> None:
    def define(rho: float) -> None:
        @method
        def twice_registered() -> ff.Method:
            return ff.fedsam(rho=rho)

    define(0.1)
    define(0.2)
    assert parse("twice_registered()", "method") == ff.fedsam(rho=0.2)
    with pytest.raises(
        FedflatError, match=r"'fedsam' is the name of a method already, in fedflat\.methods"
    ):

        @method
        def fedsam() -> ff.Method:
            return ff.fedavg()

    assert parse("fedsam(rho=0.2)", "method") == ff.fedsam(rho=0.2)
    with pytest.raises(FedflatError, match="'cnn' is the name of a model already"):

        @method
        def cnn() -> ff.Method:
            return ff.fedavg()
