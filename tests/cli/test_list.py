"""``fedflat list``, ``fedflat data``, ``--help`` and ``--version``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from data.miniature import write_idx_set
from fedflat.cli import main
from fedflat.cli.parser import builtin
from fedflat.data.files import paths as places
from fedflat.papers.presets import every
from fedflat.registry.specs import KINDS, registered
from fedflat.settings.execution import MACHINE
from fedflat.settings.groups import SETTINGS
from fedflat.settings.setting import PURPOSES
from fedflat.version import __version__


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    try:
        status = main(words)
    except SystemExit as ended:  # --help and --version end where they are read
        status = ended.code
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def test_methods(capsys: pytest.CaptureFixture[str]) -> None:
    """Every method with its summary, arguments and cost."""
    listing = output_of(capsys, "list", "methods")
    lines = {
        line.split()[0]: line.split() for line in listing.splitlines() if line and line[0] != " "
    }
    for entry in registered("method"):
        if entry.name != "chain":
            assert entry.summary in listing
            cost = entry.make().cost
            assert lines[entry.name][1:4] == [str(cost.down), str(cost.up), str(cost.gradients)]
            assert lines[entry.name][-2:] == [str(cost.server_state), str(cost.client_state)]
            for name in entry.signature.parameters:
                assert f"{name}=" in listing
    # Known by heart: what the papers say about theirs.
    assert lines["fedavg"][1:] == ["1", "1", "1", "0", "0"]
    assert lines["fedsam"][1:4] == ["1", "1", "2"]
    assert lines["feddyn"][-2:] == ["1", "1"]
    assert lines["naive_fedgloss"][1:3] == ["2", "2"]
    assert lines["centralised"][1:3] == ["0", "0"]
    assert "chain(a, b)" in listing


def test_one_method(capsys: pytest.CaptureFixture[str]) -> None:
    messages = output_of(capsys, "list", "methods", "fedgloss")
    for word in (
        "rho_s",
        "rho_l",
        "beta",
        "T_s",
        "dual_scale",
        "Caldarola et al., CVPR 2025",
        "server: stale_sam",
    ):
        assert word in messages
    assert (
        "1 vectors down, 1 up; local training once, with 1 gradients per step and 0 over all data"
        in messages
    )
    assert "weighting: sized" in messages


def test_docstrings_are_printed_without_markup(capsys: pytest.CaptureFixture[str]) -> None:
    assert "parameters, ||w||." in output_of(capsys, "list", "metrics", "norms")


def test_a_combination(capsys: pytest.CaptureFixture[str]) -> None:
    messages = output_of(
        capsys, "list", "methods", "feddyn(alpha=0.1) + sam(rho=0.5) + wima(window=3)"
    )
    assert messages.startswith("feddyn(alpha=0.1) + sam(rho=0.5) + wima(window=3)\n")
    assert "client: sam(rho=0.5) -> dual(alpha=0.1, by_size=False); server: dual(" in messages
    assert "evaluated: wima(" in messages
    assert "2 gradients per step" in messages
    assert "weighting: uniform" in messages


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(places, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(places, "SYSTEM", tmp_path / "system")
    monkeypatch.delenv("FEDFLAT_DATA", raising=False)
    yield tmp_path
    places.set_data_dir(None)


def test_data_list(capsys: pytest.CaptureFixture[str], empty: Path) -> None:
    """Where each set is, or how to get it."""
    write_idx_set(empty / "mine" / "mnist", 20, 10)
    listing = output_of(capsys, "data", "list", "--data-dir", str(empty / "mine"))
    assert listing == output_of(capsys, "list", "datasets", "--data-dir", str(empty / "mine"))
    for entry in registered("data set"):
        assert f"\n{entry.name} " in f"\n{listing}"
        assert entry.summary in listing
    assert "comes with scikit-learn" in listing
    assert str(empty / "mine" / "mnist") in listing
    assert "fedflat data get mnist" not in listing
    for name in ("cifar10", "cifar100", "fashion_mnist"):
        assert f"fedflat data get {name}\n" in listing


def test_data_show(capsys: pytest.CaptureFixture[str]) -> None:
    messages = output_of(capsys, "data", "show", "digits(lda(0), clients=20)", "--seed", "3")
    assert messages.startswith("digits(lda(0), clients=20), seed 3\n")
    assert "test examples, inputs of 1x8x8, 10 classes" in messages
    assert "20" in messages
    assert messages != output_of(capsys, "data", "show", "digits(iid(), clients=20)", "--seed", "3")
    assert "held out by the clients" in output_of(
        capsys, "data", "show", "digits(iid(), clients=20, split=0.7)"
    )


def test_data_get_what_needs_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "digits"]) == 0
    assert "digits comes with scikit-learn and needs no files." in capsys.readouterr().out


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of(capsys, "--version") == f"fedflat {__version__}\n"
    messages = output_of(capsys, "--help")
    for command in ("run", "compare", "resume", "list", "data", "dashboard"):
        assert f"\n    {command} " in messages
    assert "examples:" in messages
    options = output_of(capsys, "run", "--help")
    for option in ("--on", "--rounds", "--checkpoint-every", "--workers", "--replay", "--target"):
        assert option in options
    assert "--checkpoint-every" in output_of(capsys, "resume", "--help")


@pytest.mark.parametrize(
    "kind", ["model", "partition", "schedule", "metric", "executor", "initializer"]
)
def test_items_of_a_kind(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """A line for each, with its arguments and its first sentence, and an example of how it is
    used."""
    lines, use = output_of(capsys, "list", KINDS[kind]).rstrip().split("\n\n")
    entries = list(registered(kind))
    for line, entry in zip(lines.splitlines(), entries, strict=True):
        assert line.startswith(f"{entry.name}(")
        assert all(f"{name}" in line for name in entry.signature.parameters)
        assert line.endswith(entry.summary.replace("``", ""))
    assert use.startswith("Use: ")


def test_kinds_with_their_counts(capsys: pytest.CaptureFixture[str]) -> None:
    messages = output_of(capsys, "list")
    counts = {
        line.split()[0]: int(line.split()[1]) for line in messages.split("\n\n")[0].splitlines()
    }
    assert counts.keys() == {*filter(None, KINDS.values()), "presets"}
    for kind, name in KINDS.items():
        if name and name != "commands":
            assert counts[name] == len(list(registered(kind)))
    assert counts["commands"] == len(builtin())
    assert counts["presets"] == len(every())


def test_one_item_of_a_kind(capsys: pytest.CaptureFixture[str]) -> None:
    messages = output_of(capsys, "list", "models", "mlp")
    assert messages.startswith("mlp(hidden=[64])\n\nLinear layers of widths")
    assert output_of(capsys, "list", "models", "mlp(hidden=[8])").startswith("mlp(hidden=[8])\n")
    assert output_of(capsys, "list", "executors", "in-process").startswith("in_process(")
    assert "analyse: compute curvature" in output_of(capsys, "list", "commands", "analyse")
    for word in ("speling", "drift(", "presets"):
        assert main(["list", "metrics", word]) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_options_of_run_are_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """The most used first; then every setting under its purpose."""
    messages = output_of(capsys, "run", "--help")
    titles = [
        line.removesuffix(":")
        for line in messages.splitlines()
        if line.endswith(":") and line[0] != " "
    ]
    assert titles == [
        "positional arguments",
        "common options",
        "preset",
        *PURPOSES,
        "output",
        "other options",
        "examples",
    ]
    parts = {part.partition(":\n")[0]: part for part in messages.split("\n\n")}
    common = re.findall(r"^  (--[a-z-]+)", parts["common options"], re.MULTILINE)
    assert common == [
        "--on",
        "--rounds",
        "--clients-per-round",
        "--local-epochs",
        "--batch-size",
        "--lr",
        "--model",
        "--seed",
        "--seeds",
        "--out",
        "--workers",
    ]
    for one in (*SETTINGS, *MACHINE):
        if one.typeable and one.option not in common:
            assert f"  {one.option} " in parts[one.about.purpose].replace("\n", " \n")


def test_every_command_is_a_module_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    messages = " ".join(output_of(capsys, "--help").split())
    for name, verb in builtin().items():
        assert f" {name} " in messages
        assert verb.HELP in messages
        assert output_of(capsys, name, "--help").startswith(f"usage: fedflat {name}")
    assert output_of(capsys, "analyze", "--help") == output_of(capsys, "analyse", "--help")


def test_help_shows_both_values_of_concentration(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("list", "partitions"), ("data", "show", "--help")):
        messages = output_of(capsys, *words)
        assert "concentration='total'" in messages
        assert "lda(alpha, concentration='component')" in messages
        assert "  dirichlet(alpha)  " in messages


def test_data_show_says_how_alpha_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    """Dirichlet(alpha * prior) with ten equal classes is Dirichlet([alpha / 10] * 10)."""
    messages = output_of(capsys, "data", "show", "digits(lda(0.5), clients=20)")
    assert (
        "alpha 0.5 is the total over the 10 classes, 0.05 each on average (each with concentration='comp"
        in messages
    )
    assert "draw dirichlet(0.5), Flower Datasets dirichlet(0.5, balance=False).\n" in messages
    assert "alpha 0.5 is the total" in output_of(
        capsys, "data", "show", "unlabelled(digits(lda(0.5), clients=20))"
    )
    messages = output_of(
        capsys, "data", "show", "digits(lda(0.5, concentration='component'), clients=20)"
    )
    assert (
        "alpha 0.5 is that of each of the 10 classes, 5 in total (the total with concentration='total')\n"
        in messages
    )
    assert "alpha" not in output_of(capsys, "data", "show", "digits(iid(), clients=20)")
