"""``fedflat list presets`` and ``fedflat run --preset``, on miniature files in the true formats."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from data.miniature import write_cifar_files, write_idx_set
from experiments.small import final, rows
from fedflat.cli import main
from fedflat.data.files import paths as places
from fedflat.experiments.experiment import from_json
from fedflat.papers.presets import PAPERS, every, find


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder to be in, and no data but the miniature ones."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(places, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(places, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv("FEDFLAT_DATA", str(tmp_path / "files"))
    write_cifar_files(tmp_path / "files" / "cifar-10-batches-bin", "cifar10", 30)
    write_cifar_files(tmp_path / "files" / "cifar-100-binary", "cifar100", 150)
    write_idx_set(tmp_path / "files" / "fashion-mnist", 500, 100)


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a refusal that leaves nothing behind."""
    try:
        status = main(words)
    except SystemExit as ended:
        status = ended.code
    out, output = capsys.readouterr()
    assert (status, out) == (2, "")
    assert not list(Path.cwd().iterdir())
    return output


def saved(folder: str = "out") -> dict[str, Any]:
    return json.loads(Path(folder, "run.json").read_text())["experiment"]


def test_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """A page of groups, in which every run is counted; the word of a group lists its runs."""
    page = output_of(capsys, "list", "presets")
    assert len(page.splitlines()) < 230
    groups = {
        name: int(count)
        for name, count in re.findall(r"^  (\S+/\S+-) +(\d+) runs  ", page, re.MULTILINE)
    }
    assert sum(groups.values()) == len(every())
    for name, count in groups.items():
        assert sum(preset.name.startswith(name) for preset in every()) == count
    assert all(f"\n{paper}: " in f"\n{page}" for paper in PAPERS)
    assert all(preset.on in page for preset in every())


def test_a_paper(capsys: pytest.CaptureFixture[str]) -> None:
    """Its groups, where its sources disagree, and what is left out."""
    page = output_of(capsys, "list", "presets", "eccv22")
    assert page.startswith("eccv22: FedSAM, FedASAM and server-side SWA on CIFAR.\n")
    assert "fedgloss/" not in page
    assert "Where the sources disagree: SWA starts after 75 %" in page
    assert (
        "its tables: 1,159 numbers, 1,103 can be run (204 of them in another table too), 56" in page
    )
    assert "left out: Table 5: differences of the other numbers" in page
    assert "    Table 6: 208 numbers, 208 can be run (48 of them in another table too)\n" in page


def test_totals(capsys: pytest.CaptureFixture[str]) -> None:
    """Sums of what each paper says."""
    page = output_of(capsys, "list", "presets")
    found = re.findall(r"its tables: ([\d,]+) numbers, ([\d,]+) can be run", page)
    numbers, runs = (sum(int(pair[place].replace(",", "")) for pair in found) for place in (0, 1))
    left = numbers - runs
    assert f"all papers: {numbers:,} numbers in tables, {runs:,} can be run, {left:,} left" in page


def test_what_a_preset_reports(capsys: pytest.CaptureFixture[str]) -> None:
    for name, sentence in (
        (
            "fedgloss/cifar10-cnn-alpha0-fedprox-cost",
            "0.8 B to reach the score of fedgloss/cifar10",
        ),
        ("fedgloss/cifar10-cnn-alpha0-scaffold-rounds", "that it does not reach the score of fedg"),
        ("man/cifar100-delta0.3-feddc-trace", "3578.0 as trace of the Hessian on the train set"),
        ("fedgloss/cifar10-cnn-alpha0-fedgloss-half", "78.9 ± 0.5 after 5,000 of 10,000 rounds"),
        ("man/tiny-iid-feddc-rounds", "201 rounds to reach 28 % (Table 1)"),
    ):
        assert f"The paper reports {sentence}" in output_of(capsys, "list", "presets", name)


def test_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    listing = output_of(capsys, "list", "presets", "fedgloss/")
    for preset in (preset for preset in every() if preset.name.startswith("fedgloss/")):
        assert re.search(
            rf"^[* ] {re.escape(preset.name)} +{re.escape(preset.figure)} ", listing, re.MULTILINE
        )
        assert preset.on in listing
    assert "`fedflat run --preset NAME` runs it" in listing


@pytest.mark.parametrize(
    "name", ["eccv22/cifar100-pam-e2-20clients-fedasam-mixup-swa", "fedgloss/cifar10-cnn-alpha0-repo",
             "fedfsa/fmnist-pat5-fedspeed", "man/cifar100-delta0.3-feddc-man", "wima/cifar10-alpha0-b20-classifier"],
)  # fmt: skip
def test_the_command_in_full_says_the_same(capsys: pytest.CaptureFixture[str], name: str) -> None:
    messages = output_of(capsys, "list", "presets", name)
    command = re.search(r"is the same as\n(fedflat run .*?)\n\n", messages, re.DOTALL)[1]
    words = shlex.split(command.replace("\\\n", " "))
    assert main([*words[1:], "--on", "digits(lda(0), clients=20, split=0.7)", "--model", "mlp([8])", "--rounds", "1",
                 "--clients-per-round", "2", "--quiet", "--out", "out"]) == 0  # fmt: skip
    small = {
        "on": "digits(lda(0), clients=20, split=0.7)",
        "model": "mlp([8])",
        "rounds": 1,
        "clients_per_round": 2,
    }
    assert (
        saved()
        == find(name).experiment(eval_last=find(name).settings["eval_last"], **small).as_json()
    )
    assert "About the paper's runs:\n" in messages


def test_feddyn_is_not_clipped_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    rows_of_feddyn = [
        preset
        for preset in every()
        if preset.name.startswith("eccv22/") and "feddyn" in preset.name
    ]
    assert len(rows_of_feddyn) == 2 * 2 * 8
    assert all(
        "FedDyn's own code clips at a norm of 10: --clip 10" in preset.note
        for preset in rows_of_feddyn
    )
    assert "--clip 10." in output_of(capsys, "list", "presets", "eccv22/cifar10-alpha0-feddyn")


def test_some_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    listing = output_of(capsys, "list", "presets", "cifar100-cnn-alpha0-")
    names = re.findall(r"^[* ] (\S+/\S+)", listing, re.MULTILINE)
    chosen = [preset for preset in every() if "cifar100-cnn-alpha0-" in preset.name]
    groups = dict.fromkeys(preset.on for preset in chosen)
    assert names == [preset.name for on in groups for preset in chosen if preset.on == on]
    assert "* fedgloss/cifar100-cnn-alpha0-fedgloss " in listing
    assert "  fedgloss/cifar100-cnn-alpha0-feddyn " in listing
    assert re.search(r"-feddyn +X +Table 3 +feddyn\(alpha=0.01\)\n", listing)
    where = "fedgloss: cifar100(lda(0), clients=100, normalise='fedgloss'), cnn(), 5 clients per round, 20,000 rounds\n"
    assert listing.startswith(where)


def test_one_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Though others have its name in theirs."""
    messages = output_of(capsys, "list", "presets", "fedgloss/cifar10-cnn-alpha0-naive-fedgloss")
    assert messages.splitlines()[0] == "fedgloss/cifar10-cnn-alpha0-naive-fedgloss"
    assert (
        "The paper reports 83.9 ± 0.2 after 10,000 rounds (Table 6).\n77.6 ± 0.3 after half of the rounds."
        in messages
    )
    assert re.search(r"seeds +0, 42, 200299\n", messages)
    messages = output_of(capsys, "list", "presets", "fedgloss/cifar10-cnn-alpha0-repo")
    assert messages.startswith(
        "fedgloss/cifar10-cnn-alpha0-fedgloss-repo, or fedgloss/cifar10-cnn-alpha0-repo\n"
    )
    messages = output_of(capsys, "list", "presets", "fedgloss/cifar100-cnn-alpha0-feddyn-sam")
    assert "no convergence after 20,000 rounds" in messages
    assert "best personal accuracy after 250 rounds" in output_of(
        capsys, "list", "presets", "fedfsa/fmnist-pat5-fedcr"
    )


def test_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    messages = refused(capsys, "list", "presets", "fedglos/cifar10-cnn-alpha0")
    assert (
        "no preset has 'fedglos/cifar10-cnn-alpha0' in its name. Did you mean 'fedgloss/cifar10-cnn-alpha0'?"
        in messages
    )
    assert "unknown option '--wrod'" in refused(capsys, "list", "presets", "--wrod")


def test_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """All that is not typed is the preset's, and the paper's number stands beside the result."""
    preset = find("eccv22/cifar100-alpha0.5-fedasam-swa")
    assert (
        main(["run", "--preset", preset.name, "--rounds", "2", "--threads", "1", "--out", "out"])
        == 0
    )
    out, output = capsys.readouterr()
    assert "fedasam(rho=0.5, eta=0.2) + swa(cycle=20)" in out
    assert (
        "the paper reports 49.17 after 20,000 rounds (Table 2); changed here: rounds.\n" in output
    )
    assert (
        "SWA's first cycle of 20 rounds: not finished after 2 rounds. --stretch scales every"
        in output
    )
    accuracy = 100 * rows(Path("out"))[-1]["accuracy"]  # the last tenth of two rounds is one
    assert f"eccv22/cifar100-alpha0.5-fedasam-swa: {accuracy:.2f}; the paper" in output
    assert saved() == preset.experiment(rounds=2).as_json()
    assert from_json(saved()) == preset.experiment(rounds=2)
    first = final(Path("out"))
    assert main(["resume", "out", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert final(Path("out")) == first


def test_what_is_typed_wins(capsys: pytest.CaptureFixture[str]) -> None:
    """Even if it is the default of a run without a preset."""
    assert main(
        ["run", "--preset", "man/cifar100-delta0.3-feddyn", "--rounds", "1", "--clients-per-round", "2", "--lr", "0.01",
         "--sampler", "uniform", "--batch-size", "50", "--weight-decay", "decay(0.1, 0.9)", "--local-steps", "3",
         "--model", "logistic", "--on", "digits(lda(0), clients=20)", "--seed", "7", "--out", "out"]
    ) == 0  # fmt: skip
    exp = saved()
    assert exp["sampler"] == {"clients": 2, "kind": "uniform", "seeding": "run", "cohorts": None}
    assert (exp["on"], exp["model"], exp["seed"]) == ("digits(lda(0), clients=20)", "logistic()", 7)
    local = exp["local"]
    assert (local["lr"], local["batch_size"], local["weight_decay"]) == (
        0.01,
        50,
        "decay(0.1, 0.9)",
    )
    assert (local["steps"], local["clip"]) == (3, 10.0)
    output = capsys.readouterr().err
    assert (
        "changed here: on, model, rounds, clients per round, sampler, local steps, lr, weight decay.\n"
        in output
    )


def test_quiet_and_without_preset(capsys: pytest.CaptureFixture[str]) -> None:
    small = (
        "--on",
        "digits(lda(0), clients=20)",
        "--model",
        "logistic",
        "--rounds",
        "1",
        "--quiet",
    )
    assert main(["run", "--preset", "eccv22/cifar10-alpha0", *small, "--out", "out"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["run", "fedavg", "--quiet", "--out", "plain", "--rounds", "1"]) == 0
    plain = saved("plain")
    assert (plain["on"], plain["seed"], plain["sampler"]["clients"]) == ("digits(lda(0))", 0, 10)
    assert (plain["local"]["lr"], plain["local"]["batch_size"], plain["on_bad"]) == (
        0.1,
        64,
        "raise",
    )


def test_a_run_that_is_stretched(capsys: pytest.CaptureFixture[str]) -> None:
    """What is typed still wins; without --stretch one is told what the run is too short for."""
    small = (
        "--on",
        "digits(lda(0), clients=20)",
        "--model",
        "logistic",
        "--rounds",
        "20",
        "--threads",
        "1",
    )
    words = ["run", "--preset", "fedgloss/cifar10-cnn-alpha0", *small]
    assert main([*words, "--out", "plain"]) == 0
    output = capsys.readouterr().err
    assert (
        "  T_s=2000: not finished after 20 rounds. --stretch scales everything that is counted in rounds"
        in output
    )
    assert "T_s=2000" in saved("plain")["method"]
    assert main([*words, "--stretch", "--eval-every", "10", "--out", "short"]) == 0
    output = capsys.readouterr().err
    assert "not finished" not in output
    assert "changed here: on, model, rounds, eval every (schedules stretched).\n" in output
    assert saved("short")["method"] == "fedgloss(rho_s=0.15, rho_l=0.15, beta=10, T_s=4)"
    assert {"every": 10, "last": 2}.items() <= saved("short")["evaluate"].items()
    assert (
        main(["run", "fedsam(rho=warmup(0, 0.1, 9))", *small[:4], "--rounds", "2", "--out", "own"])
        == 0
    )
    assert "  the warm-up over 9 rounds: not finished after 2 rounds.\n" in capsys.readouterr().err


def test_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    """The authors' where they are known, else from 0."""
    small = (
        "--on",
        "digits(lda(0), clients=20, split=0.7)",
        "--model",
        "mlp([8])",
        "--rounds",
        "1",
        "--quiet",
    )
    named, unnamed = "fedfsa/fmnist-pat5-fedavg-ft", "wima/cifar10-alpha0-fedavg"
    assert main(["run", "--preset", named, *small, "--out", "one"]) == 0
    assert saved("one")["seed"] == 23
    for name, seeds in ((named, [23, 100]), (unnamed, [0, 1])):
        folder = Path(name.replace("/", "-"))
        assert main(["run", "--preset", name, *small, "--seeds", "2", "--out", str(folder)]) == 0
        study = json.loads((folder / "study.json").read_text())
        assert [run["experiment"]["seed"] for run in study["runs"]] == seeds


PERSONAL = [
    f"fedfsa/fmnist-pat5-{message}"
    for message in ("fedavg-ft", "fedcr", "fedala", "fedspeed-repo", "fedfsa")
]
OTHERS = [
    "eccv22/cifar100-alpha0-server-adam1",
    "fedgloss/cifar10-cnn-alpha0-fedgloss-repo", "fedgloss/cifar100-cnn-alpha0.5-naive-fedgloss",
    "man/cifar10-iid-feddc-man-repo", "wima/cifar10-alpha0-mime-sgdm-wima", "wima/cifar100-alpha0-b20-features",
]  # fmt: skip


@pytest.mark.parametrize("name", PERSONAL)
def test_personal_runs(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The number is the best personal accuracy; one of them on the preset's own data."""
    own = (
        ("--on", "fashion_mnist(pathological(5), clients=6, split=0.7, pool=True)")
        if "-fedfsa" not in name
        else ()
    )
    work = ("--rounds", "2", "--local-epochs", "1", "--clients-per-round", "2", "--threads", "1")
    assert main(["run", "--preset", name, *work, *own, "--out", "out"]) == 0
    best = max(row["personal"] for row in rows(Path("out")))
    assert (
        f"{name}: {100 * best:.2f} as its best personal accuracy; the paper reports"
        in capsys.readouterr().err
    )
    assert rows(Path("out"))[-1]["tuned"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_runs(capsys: pytest.CaptureFixture[str], name: str) -> None:
    work = ("--rounds", "1", "--clients-per-round", "2", "--threads", "1")
    assert main(["run", "--preset", name, *work, "--out", "out"]) == 0
    assert f"{name}: " in capsys.readouterr().err
    assert saved()["on_bad"] == "stop"


@pytest.mark.slow
def test_pachinko(capsys: pytest.CaptureFixture[str]) -> None:
    """500 clients and a ResNet-18 are much; the rest of the preset is as it is."""
    small = (
        "--on",
        "cifar100(pam(), clients=20)",
        "--model",
        "resnet20()",
        "--rounds",
        "4",
        "--threads",
        "1",
    )
    assert (
        main(
            [
                "run",
                "--preset",
                "eccv22/cifar100-pam-fedasam-cutout-swa-repo",
                *small,
                "--out",
                "out",
            ]
        )
        == 0
    )
    assert (
        "the paper reports 57.01 after 10,000 rounds (Table 3); changed here: on, model, rounds"
        in (capsys.readouterr().err)
    )
    assert rows(Path("out"))[-1]["model"] == "swa"


def test_a_run_that_diverges(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--on",
        "digits(lda(0), clients=20)",
        "--model",
        "logistic",
        "--rounds",
        "3",
        "--lr",
        "1e30",
    ]
    assert (
        main(["run", "--preset", "fedgloss/cifar100-cnn-alpha0-feddyn", *words, "--out", "out"])
        == 0
    )
    output = capsys.readouterr().err
    assert (
        "feddyn: X (diverged); the paper reports no convergence after 20,000 rounds (Table 3); changed"
        in output
    )


def test_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    messages = refused(capsys, "run", "fedavg", "--preset", "eccv22/cifar10-alpha0")
    assert "--preset eccv22/cifar10-alpha0 has a method already" in messages
    assert "found 'fedavg' too" in messages
    assert "has a method already" in refused(
        capsys, "run", "--preset", "eccv22/cifar10-alpha0", "fedavg"
    )
    messages = refused(capsys, "run", "--preset", "eccv22/cifar10-alfa0", "--rounds", "1")
    assert (
        "unknown preset 'eccv22/cifar10-alfa0'. Did you mean 'eccv22/cifar10-alpha0'?" in messages
    )
    assert "METHOD" in refused(capsys, "run", "--rounds", "1")
    messages = refused(capsys, "run", "fedavg", "--stretch")
    assert "--stretch scales the schedules of a preset, and there is none" in messages
    assert "expected one argument" in refused(capsys, "run", "--preset")
    assert "unknown option '--preset'" in refused(
        capsys, "compare", "fedavg", "--preset", "eccv22/cifar10-alpha0"
    )
    messages = refused(capsys, "run", "--preset", "fedfsa/fmnist-pat5", "--seeds", "4")
    assert (
        "--seeds 4: the preset has 3 seeds, those of the authors: 23, 100, 200. Use at most 3"
        in messages
    )
    messages = refused(capsys, "run", "--preset", "fedfsa/fmnist-pat5", "--seeds", "0")
    assert "seeds must be a whole number of at least 1, found 0" in messages
    assert "not allowed with" in refused(
        capsys, "run", "--preset", "man/cifar10-iid", "--seed", "1", "--seeds", "2"
    )


def test_data_that_are_not_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDFLAT_DATA")
    messages = refused(
        capsys, "run", "--preset", "eccv22/cifar10-alpha0", "--rounds", "1", "--quiet"
    )
    assert "`fedflat data get cifar10`" in messages
