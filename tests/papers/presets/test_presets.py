"""Every preset can be read and defines a whole experiment."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

from fedflat.errors import SpellingError
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.papers.presets import PAPERS, Preset, every, find, matching
from fedflat.papers.presets.preset import FLATNESS, TO_TARGET, PublishedCell, read, reference, rows
from fedflat.papers.presets.table_counts import COUNTS
from fedflat.registry.specs import parse

BY_PAPER = {paper: [p for p in every() if p.name.startswith(f"{paper}/")] for paper in PAPERS}


def test_every_paper_has_some() -> None:
    assert all(BY_PAPER.values())
    assert sum(map(len, BY_PAPER.values())) == len(every())


def test_a_preset_counts_the_last_rounds_as_its_paper_does() -> None:
    """A shorter run at most its last tenth, unless one is given."""
    for preset in every():
        last = (
            10
            if (preset.not_printed and not preset.table.startswith(("Figure", "Equation")))
            or preset.name.startswith("fedvpr/")
            else 100
        )
        if preset.name.startswith("flsam/"):
            last = 50
        if preset.name.startswith(("man/", "fedfsa/", "fedwmsam/")) or (
            "centralised" in preset.name
            and preset.name.startswith(("eccv22/", "fedgloss/", "fedseq/"))
        ):
            last = 1
        assert preset.arguments().get("eval_last", 100) == last, preset.name
    preset = find("fedgloss/cifar10-cnn-alpha0")
    assert preset.experiment(rounds=30).evaluate.last == 3
    assert preset.experiment(rounds=30, eval_last=8).evaluate.last == 8
    assert find("man/cifar10-iid").experiment(rounds=30).evaluate.last == 1


def test_names_are_unique() -> None:
    """The short names of columns too."""
    names = [name for preset in every() for name in (preset.name, preset.column) if name]
    assert len(set(names)) == len(names)
    assert all(find(name).name.startswith(name.removesuffix("-repo")) for name in names)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_text_is_what_it_makes(paper: str) -> None:
    """What is read prints as a text that reads the same; method and model print as they were
    written."""
    for preset in BY_PAPER[paper]:
        on = parse(preset.on, "data set")
        assert parse(repr(on), "data set") == on
        assert repr(parse(preset.method, "method")) == preset.method
        assert repr(parse(preset.model, "model")) == preset.model


@pytest.mark.parametrize("paper", PAPERS)
def test_every_one_is_an_experiment(paper: str) -> None:
    """All settings reach their place; data need not be there."""
    known = set(inspect.signature(experiment).parameters)
    for preset in BY_PAPER[paper]:
        assert set(preset.arguments()) <= known
        exp = preset.experiment()
        output = preset.settings
        assert exp.rounds == preset.rounds
        assert exp.evaluate.last == output.get("eval_last", 100)
        assert exp.sampler.clients == output["clients_per_round"]
        assert exp.sampler.kind == output.get("sampler", "uniform")
        assert exp.sampler.seeding == output.get("sampler_seed", "run")
        assert (exp.local.epochs, exp.local.steps) == (
            output.get("local_epochs", 1),
            output.get("local_steps"),
        )
        assert exp.local.batch_size == output["batch_size"]
        assert (exp.local.weight_decay, exp.local.momentum) == (
            output.get("weight_decay", 0),
            output.get("momentum", 0),
        )
        assert exp.local.clip == output.get("clip")
        assert exp.seed == (preset.seeds or (0,))[0]
        assert exp.on_bad == "stop"
        assert bool(exp.method.evaluations) == (preset.measure == "personal")
        assert bool(exp.method.evaluations) is (paper == "fedfsa")


def test_what_is_reported_is_a_percentage() -> None:
    for preset in every():
        if preset.measure not in (*TO_TARGET, *FLATNESS):
            assert preset.reported is None or 1 <= preset.reported <= 100
        assert preset.table.startswith("Table ") != preset.not_printed
        assert not preset.not_printed or (preset.reported, preset.figure) == (None, "-")


def run_of(preset: Preset) -> tuple[object, ...]:
    """What is trained: without an average that is evaluated beside it."""
    method = preset.method.removesuffix(" + wima(window=100)")
    return method, preset.on, preset.model, preset.rounds, tuple(sorted(preset.settings.items()))


def test_other_measures_are_of_runs_that_other_presets_make() -> None:
    """Apart from an average that is evaluated beside the run, and from points of figures."""
    runs = {run_of(preset) for preset in every() if preset.scored}
    for preset in every():
        assert (preset.target is None) == (preset.measure not in TO_TARGET)
        assert not preset.unreached or preset.measure in TO_TARGET
        if not preset.scored and "landmarks" not in preset.name:
            assert run_of(preset) in runs, preset.name
        _, name = reference(preset.target)
        if name:
            other = find(name)
            assert other.scored
            assert other.on == preset.on


def test_every_printed_number_is_counted() -> None:
    """A preset, a number of another table, or left out for a reason; by hand from the tables."""
    left = {}
    for paper, counts in COUNTS.items():
        own = BY_PAPER[paper]
        for count in counts:
            assert count.left_out(own) >= 0, (paper, count)
            assert bool(count.left_out(own)) <= bool(count.why)
            left[paper, count.table] = count.left_out(own)
        tables = {preset.table for preset in own if not preset.not_printed}
        assert tables <= {count.table for count in counts}
    ours = {key: value for key, value in left.items() if value}
    assert ours == {
        ("eccv22", "Table 5"): 56,
        ("fedgloss", "Table 5"): 10,
        ("fedgloss", "Table 10"): 14,
        ("ladd", "Table 5.6"): 1,
        ("fedseq", "Table 5.4"): 15,
        ("flsam", "Table README"): 42,
        ("fedwmsam", "Table 1"): 20,
    }


def test_every_column_has_one_main_run() -> None:
    """Take the method's words off a name, and the column is left."""
    mains = {
        "eccv22": "-fedasam-swa", "fedgloss": "-fedgloss", "fedfsa": "-fedfsa", "man": "-fedavg-man",
        "wima": "-fedavg-wima", "flsam": "-fedgmt", "fedwmsam": "-fedwmsam",
    }  # fmt: skip
    for paper, main in mains.items():
        for preset in (one for one in BY_PAPER[paper] if not one.not_printed):
            plain = preset.name.removesuffix("-repo")
            assert bool(preset.column) == (plain.endswith(main) and "naive" not in plain), (
                preset.name
            )
            if preset.column:
                assert preset.column == preset.name.replace(main, "")


def test_the_columns_of_feddrive() -> None:
    """One run gives two numbers on IDDA: on what was seen and what was not."""
    seen, unseen = find("feddrive/idda-country-seen"), find("feddrive/idda-country-unseen")
    assert seen.experiment() == unseen.experiment()
    assert (seen.measure, unseen.measure) == ("miou", "tests.unseen")
    assert seen.method == "silobn(only_named='bn') + lab()"
    assert find("feddrive/cityscapes-cities-fedavg-lab").method == "fedavg() + lab(exclude='none')"
    both = [find(f"feddrive/cityscapes-cities-{word}") for word in ("fedavg", "silobn")]
    assert [preset.settings["batch_size"] for preset in both] == [16, 8]
    assert all(preset.experiment().task.headline.name == "miou" for preset in BY_PAPER["feddrive"])


def test_code_and_paper_are_both_there() -> None:
    """Each ``-repo`` has its original, from which it differs in the method or, for FedGloSS's, in
    how data change."""
    repos = [preset for preset in every() if preset.name.endswith("-repo")]
    assert {preset.name.partition("/")[0] for preset in repos} == {
        "eccv22",
        "fedgloss",
        "fedfsa",
        "man",
        "flsam",
        "fedwmsam",
    }
    for repo in repos:
        plain = find(repo.name.removesuffix("-repo"))
        alike = ", augment='fedgloss')" if repo.name.startswith("fedgloss/") else ")"
        assert repo.on == plain.on.removesuffix(")") + alike
        assert (repo.method, repo.on) != (plain.method, plain.on)
        for name in ("model", "rounds", "settings", "reported", "spread", "table", "seeds"):
            assert getattr(repo, name) == getattr(plain, name)
        assert "code" in repo.note


def test_overrides() -> None:
    preset = find("man/cifar100-delta0.3-feddc")
    exp = preset.experiment(rounds=7, lr=0.5, model="mlp", seed=3)
    assert (exp.rounds, exp.local.lr, repr(exp.model), exp.seed) == (7, 0.5, "mlp()", 3)
    assert (exp.local.epochs, exp.local.clip) == (5, 10.0)
    assert preset.experiment().rounds == 500


def test_unknown_names() -> None:
    with pytest.raises(
        SpellingError,
        match=r"unknown preset 'fedgloss/cifar10-cnn-alpha'\. Did you mean 'fedgloss/",
    ):
        find("fedgloss/cifar10-cnn-alpha")
    with pytest.raises(
        SpellingError, match=r"unknown preset '\?'\. `fedflat list presets` lists them all\."
    ):
        find("?")
    with pytest.raises(
        SpellingError,
        match=r"no preset has 'fedglos/cifar10' in its name\. Did you mean 'fedgloss/",
    ):
        matching("fedglos/cifar10")


def test_matching() -> None:
    assert matching("") == list(every())
    assert {p.name.partition("/")[0] for p in matching("cifar100-alpha0.5")} == {
        "eccv22",
        "wima",
        "fedseq",
    }
    assert [p.name for p in matching("fedgloss/cifar10-cnn-alpha0-repo")] == [
        "fedgloss/cifar10-cnn-alpha0-fedgloss-repo"
    ]


def test_a_preset_is_a_value() -> None:
    preset = find("fedgloss/cifar10-cnn-alpha0")
    assert isinstance(preset, Preset)
    with pytest.raises(AttributeError):
        preset.rounds = 3  # type: ignore[misc]


def test_tables() -> None:
    assert read("70.2") == PublishedCell(70.2)
    assert read("84.4±0.5(79.7±0.4)") == PublishedCell(84.4, 0.5, "79.7±0.4")
    assert dict(rows("\n a 1 X\n b - 2±3", "x", "y")) == {
        "a": {"x": PublishedCell(1.0), "y": PublishedCell(None)}, "b": {"y": PublishedCell(2.0, 3.0)},
    }  # fmt: skip
    with pytest.raises(AssertionError):
        list(rows("a 1 2 3", "x", "y"))


def test_nothing_heavy_is_imported() -> None:
    code = """
import sys
from fedflat.papers.presets import every, find
every(), find("wima/cifar10-alpha0").arguments()
from fedflat.cli import main
main(["list", "presets", "eccv22/cifar10"])
print("LOADED", [name for name in ("torch", "numpy", "rich") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["streets-standin-hfl-towns", "cities-standin-hfl-cities", "streets-standin-fedvc125"]
)
def test_the_stand_ins_of_fedvpr_are_ready_to_run(name: str) -> None:
    """Their data are drawn here: places are looked for, and towns are the clusters."""
    setup = prepare(
        find(f"fedvpr/{name}").experiment(
            on="street(towns=2, clients=20, examples=4, targets='place')"
        )
    )
    assert setup.exp.headline.name == "recall@1"
    assert len(setup.server.slots) == (2 if "hfl" in name else 1)


def test_methods_with_control_variates_train_without_momentum() -> None:
    """A control variate is an update divided by steps and rate; with momentum runs are refused."""
    found = [one for one in every() if re.search(r"scaffold\(|fedgamma\(|fedcm\(", one.method)]
    assert len(found) > 50
    assert {one.name for one in found if one.settings.get("momentum")} == set()
    assert "momentum" in find("fedgloss/cifar10-resnet18-alpha0.05-scaffold").note
