"""A setting is a field with its help; signature, option, file and printed command follow from
it."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fedflat as ff
from fedflat.cli.parser import build
from fedflat.cli.training import given_settings
from fedflat.client.learner import DTYPES
from fedflat.core.json_schema import check
from fedflat.errors import SettingError
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.experiment import from_json
from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.experiments.run_folder.schema import EXECUTION, EXPERIMENT
from fedflat.report.labels import command
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS, LocalSettings, RunSettings
from fedflat.settings.setting import Setting, about, setting, settings_of
from fedflat.settings.setting import check as check_ranges
from fedflat.settings.signature import STUB, signed, stub

VALUES: dict[str, Any] = {
    "on": "digits(clients=7)",
    "model": "logistic()",
    "rounds": 30,
    "clients_per_round": 3,
    "sampler": "bernoulli",
    "sampler_seed": "round",
    "local_epochs": 2,
    "local_steps": 4,
    "max_local_steps": 3,
    "batch_size": 5,
    "lr": "decay(0.2, 0.5)",
    "weight_decay": 0.01,
    "momentum": "cosine(0.9, 0.1, 5)",
    "clip": 2.0,
    "virtual": 8,
    "drop_last": True,
    "eval_every": 6,
    "eval_examples": 9,
    "eval_last": 2,
    "select_by": "last",
    "patience": 4,
    "validation": 0.25,
    "validation_by": "clients",
    "weighting": "uniform",
    "dtype": "float64",
    "layout": "contiguous",
    "convolutions": "direct",
    "on_bad": "stop",
    "min_replies": 3,
    "seed": 5,
    "topology": "chains(groups=3)",
    "init": "pretrained(on=digits(), rounds=2)",
    "server_data": "digits(clients=3)",
    "attack": "label_flip(L_S=0.3)",
    "task": "regression()",
    "clock": "devices(extra=0.5, speed=lognormal(50, sigma=1.0))",
}
"""Something else than the default for each setting that can be typed."""
TYPEABLE = [one for one in SETTINGS if one.typeable]


OLDEST = {
    "": "method on model rounds seed weighting dtype layout on_bad loss",
    "sampler": "clients kind seeding cohorts",
    "local": "epochs steps batch_size lr weight_decay momentum clip virtual drop_last orders",
    "evaluate": "every last",
}
"""The settings in the oldest run folders that are read; nothing is added here."""


def stored_value(saved: dict[str, Any], one: Setting) -> Any:
    """What run.json keeps of a setting."""
    for name in one.path:
        saved = saved[name]
    return saved


@pytest.mark.parametrize("one", TYPEABLE, ids=lambda one: one.name)
def test_python_the_file_and_the_printed_command_know_every_setting(one: Setting) -> None:
    """A setting given in Python is stored in run.json, and the command printed from there gives the
    same experiment."""
    output = {"on": "digits()", "model": "mlp()", "rounds": 12, one.name: VALUES[one.name]}
    saved = ff.experiment("fedavg", **output).as_json()
    assert stored_value(saved, one) == VALUES[one.name]
    check(json.loads(json.dumps(saved)), EXPERIMENT)
    words = shlex.split(command(ExperimentTexts.from_json(saved), {}))
    assert one.option in words
    asked = build().read(words[1:])
    seed = {} if asked.seed is None else {"seed": asked.seed}
    assert ff.experiment(asked.method, **{**given_settings(asked), **seed}).as_json() == saved


def test_every_setting_is_tried() -> None:
    assert set(VALUES) == {one.name for one in TYPEABLE}


def test_run_folders_from_before_a_setting_are_read() -> None:
    """A new setting is declared with ``absent_in_old_runs=True``."""
    saved = ff.experiment("fedavg", on="digits()", model="mlp()", rounds=3).as_json()
    old = {key: saved[key] for key in OLDEST[""].split()}
    for group, keys in OLDEST.items():
        if group:
            old[group] = {key: saved[group][key] for key in keys.split()}
    assert json.dumps(old) != json.dumps(saved)
    check(json.loads(json.dumps(old)), EXPERIMENT)
    # The only algorithm of convolutions then.
    assert from_json(old).as_json() == saved | {"convolutions": "direct"}


def test_the_page_of_the_command_line_has_every_setting() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    assert {one.option for one in TYPEABLE} - set(re.findall(r"--[a-z-]+", page)) == set()


def test_the_stub_for_type_checkers_is_up_to_date() -> None:
    assert STUB.read_text() == stub(), "run: python -m fedflat.settings.signature"


@pytest.mark.parametrize("function", [ff.run, ff.compare, ff.experiment])
def test_the_signature_names_every_setting_with_its_default(function: Any) -> None:
    found = inspect.signature(function).parameters
    for one in (*SETTINGS, *(() if function is ff.experiment else MACHINE)):
        if one.name in ("on", "rounds"):
            assert found[one.name].default is inspect.Parameter.empty
        elif (function, one.name) != (ff.compare, "seed"):
            assert found[one.name].default == one.python_default
            assert one.name == "seed" or f"{one.name}\n    {one.described}" in function.__doc__
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in found.values())


def test_where_the_computing_is_done_is_kept_by_the_same_names() -> None:
    check(ExecutionConfig().__dict__, EXECUTION)
    assert list(ExecutionConfig().__dict__) == [one.name for one in MACHINE]


@pytest.mark.parametrize("call", [ff.experiment, ff.run])
def test_a_wrong_name_is_answered_with_the_nearest(call: Any) -> None:
    with pytest.raises(
        TypeError, match=r"\(\) has no argument 'batchsize'. Did you mean 'batch_size'\?"
    ):
        call("fedavg", on="digits()", rounds=1, batchsize=3)


def test_every_schedule_may_be_a_text_in_python() -> None:
    output: dict[str, Any] = {"weight_decay": "decay(0.1, 0.5)", "clip": "cosine(2, 1, 3)"}
    exp = ff.experiment("fedavg", "digits()", rounds=3, model="mlp", **output)
    assert (exp.local.weight_decay, exp.local.clip) == (ff.decay(0.1, 0.5), ff.cosine(2, 1, 3))


def test_a_text_is_not_taken_for_true() -> None:
    with pytest.raises(SettingError, match="drop last must be True or False, found 'False'"):
        ff.experiment("fedavg", "digits()", rounds=3, model="mlp", drop_last="False")  # type: ignore[arg-type]


def test_the_numbers_that_can_be_named_are_those_there_are() -> None:
    (dtype,) = (one for one in settings_of(RunSettings) if one.name == "dtype")
    assert set(dtype.about.allowed) == set(DTYPES)


@dataclass(frozen=True, kw_only=True)
class Own:
    """A group of settings."""

    patience: int | None = setting(
        None, "rounds without progress", low=1, high=9, default_text="for ever"
    )
    taste: str = setting("sweet", "what it is like", option="own_taste", allowed=("sweet", "sour"))


def test_one_field_is_all_it_takes() -> None:
    patience, taste = settings_of(Own, "own")

    @signed(patience, taste)
    def eat(what: str, **settings: Any) -> None:
        """Eat it."""

    assert str(inspect.signature(eat).replace(return_annotation=inspect.Signature.empty)) == (
        "(what: 'str', *, patience: 'int | None' = None, own_taste: 'str' = 'sweet')"
    )
    assert (taste.option, taste.path, patience.described) == (
        "--own-taste",
        ("own", "taste"),
        "rounds without progress (default: for ever)",
    )
    assert taste.described == "sweet or sour: what it is like (default sweet)"
    for wrong in (Own(patience=10), Own(taste="salty")):
        with pytest.raises(
            SettingError,
            match=r"own: (patience must be .* at most 9|taste must be 'sweet' or 'sour')",
        ):
            check_ranges("own", wrong)
    check_ranges("own", Own())


def test_required_settings_have_no_default() -> None:
    with pytest.raises(TypeError, match="rounds"):
        RunSettings(on=ff.digits(), model=ff.mlp())  # type: ignore[call-arg]
    assert LocalSettings().epochs == 1
    assert about("help")["setting"].help == "help"
