"""Who is with whom: written into the run folder, groups_text in text and in the report."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedflat as ff
from fedflat.cli import main
from fedflat.errors import RunError, SettingError
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.groups import groups_among, groups_text
from fedflat.experiments.run_folder.groups import GROUPS, Grouped, read_groups, write_groups
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_folder.schema import signed, verified
from fedflat.experiments.study import run_one
from fedflat.registry.specs import parse
from fedflat.report import collect

ON = "digits(lda(0.5), clients=10)"
GREEDY = "greedy(psi='labels', tau='gini', d_min=400, k_max=5)"


def run(folder: Path, topology: str, **more: object) -> Path:
    settings = {
        "rounds": 1,
        "clients_per_round": 1,
        "model": "logistic",
        "threads": 1,
        "quiet": True,
        **more,
    }
    ff.run("fedavg", on=ON, topology=topology, out=folder, **settings)  # type: ignore[arg-type]
    return folder


def counts(seed: int = 0) -> np.ndarray:
    fed = parse(ON, "data set").open(seed)
    return np.stack(
        [np.bincount(fed.data(client).labels.numpy(), minlength=10) for client in range(10)]
    )


def test_a_run_writes_down_its_groups(tmp_path: Path) -> None:
    """Superclients and clusters; in a star there are none. They are those that `data show` draws
    for the same seed."""
    for name, topology in (
        ("a", f"chains(groups={GREEDY})"),
        ("b", f"clusters({GREEDY})"),
        ("c", "bank(2, R=1)"),
    ):
        folder = run(tmp_path / name, topology)
        found = read_groups(folder, read_record(folder).identity)
        assert found is not None
        assert sorted(client for group in found.groups for client in group) == list(range(10))
        assert np.array_equal(found.counts or (), counts())
        assert np.array_equal(
            found.together or (), [counts()[list(group)].sum(0) for group in found.groups]
        )
        if name != "c":
            assert found == groups_among(parse(ON, "data set"), parse(GREEDY, "grouping"), 0)
    assert not (run(tmp_path / "star", "star()") / GROUPS).exists()


def test_a_run_is_not_resumed_with_other_groups(tmp_path: Path) -> None:
    exp = ff.experiment(
        "fedavg", ON, rounds=3, clients_per_round=1, model="logistic", topology="clusters(alike(3))"
    )
    folder = tmp_path / "run"
    run_one(exp, ExecutionConfig(threads=1), folder, until=1)
    ff.resume(folder, until=2, quiet=True)
    identity = read_record(folder).identity
    found = read_groups(folder, identity)
    assert found is not None
    first, second, *rest = found.groups
    groups = ((second[0], *first[1:]), (first[0], *second[1:]), *rest)
    write_groups(folder, identity, replace(found, groups=groups))
    with pytest.raises(RunError, match=r"other groups of clients than alike\(3\) makes now"):
        ff.resume(folder, quiet=True)


DESCRIBED = {
    "greedy(psi=confidence(epochs=1, per_class=2), tau='kl', d_min=300, k_max=5)": "logistic",
    "kmeans(psi=classifier_weights(epochs=1), d_min=300, clusters=3)": "mlp(hidden=[8])",
    "icg(4, psi=task2vec(epochs=1, draws=64, probe_epochs=1))": "mlp(hidden=[6])",
}


@pytest.mark.parametrize("grouping", DESCRIBED)
def test_groups_by_a_model_are_those_of_the_run(
    grouping: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By every estimator, with settings that change the descriptions; what is groups_text is what
    the run has written."""
    settings = [
        "--seed",
        "4",
        "--model",
        DESCRIBED[grouping],
        "--server-data",
        "public_part(digits(), per_class=2)",
        "--lr",
        "0.05",
        "--batch-size",
        "16",
        "--threads",
        "1",
    ]
    on, folder = f"without_public_part({ON}, per_class=2)", tmp_path / "run"
    words = [
        "--on",
        on,
        "--rounds",
        "1",
        "--clients-per-round",
        "3",
        "--quiet",
        "--out",
        str(folder),
    ]
    assert main(["run", f"fedseq(groups={grouping}) + sam(0.1)", *words, *settings]) == 0
    found = read_groups(folder, read_record(folder).identity)
    assert found is not None
    capsys.readouterr()
    assert main(["data", "show", on, "--groups", grouping, *settings]) == 0
    output, messages = capsys.readouterr()
    assert output.endswith(f"{groups_text(found)}\n")
    assert re.search(
        r"\n  (pre-training )?round ", messages
    )  # of clients described, or of the probe
    assert "every client is asked for" in messages


def test_labels_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures by numpy: classes held, and the mean distance of labels to everyone's; bars in
    eighths of the most."""
    groups = "given_groups([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])"
    assert main(["data", "show", ON, "--seed", "2", "--groups", groups]) == 0
    output = capsys.readouterr().out
    whole = counts(2)
    for when, whose, rows in (
        ("before", "client", whole),
        ("after ", "group", whole.reshape(2, 5, 10).sum(1)),
    ):
        held = (rows > 0).sum(1)
        far = (
            np.abs(rows / rows.sum(1, keepdims=True) - whole.sum(0) / whole.sum()).sum(1).mean() / 2
        )
        assert (
            f"{when}  classes per {whose}: {held.min()} to {held.max()} of 10, mean {held.mean():.2f}; "
            f"distance of labels to everyone's: {far:.3f}"
        ) in output
    assert f"{whole[:5].sum()} examples of 5 clients" in output
    many = Grouped("x", ((0, 1),), ((8, 3, 1, 0), (0, 1, 0, 0)))
    assert "|█▄▁ |  13 examples of 2 clients" in groups_text(many)


def test_many_groups_are_not_all_drawn() -> None:
    output = groups_text(
        Grouped("x", tuple((k,) for k in range(20)), tuple((1, k) for k in range(20)))
    )
    assert "group 11" in output
    assert "group 12" not in output
    assert output.endswith("and 8 groups more")
    assert "and 4 clients more" in groups_text(
        Grouped("x", (tuple(range(10)),), tuple((1, k) for k in range(10)))
    )
    assert groups_text(Grouped("x", ((0, 2), (1,)), None)).splitlines()[1:] == [
        "group 0: clients 0, 2",
        "group 1: clients 1",
    ]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            "kmeans(psi='task2vec')",
            "task2vec() needs data of the server's own. Name some: --server-data 'digits()'.",
        ),
        ("alike(20, psi='classifier')", "20 groups cannot be made of 10 clients"),
        ("11", "11 groups were asked for, but there are only 10 clients"),
        (
            "greedy(psi='labels', d_min=100000)",
            "a group must have d_min=100000 examples, but all 10 clients together",
        ),
        ("fedavg()", "is a method, not a grouping"),
        ("by_column('town')", "these data have no column 'town'"),
    ],
)
def test_groups_that_cannot_be_made(
    groups: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "show", ON, "--groups", groups]) == 2
    assert words in capsys.readouterr().err


def test_labels_are_needed() -> None:
    with pytest.raises(SettingError, match="have no class for each example"):
        groups_among(ff.diabetes(clients=4), ff.alike(2), 0)
    assert len(groups_among(ff.diabetes(clients=4), ff.random_groups(2), 0).groups) == 2


def edit(folder: Path) -> None:
    """Exchange two members of different groups; the file still looks as it should."""
    saved = json.loads((folder / GROUPS).read_text())
    first, second = saved["groups"][:2]
    first[0], second[0] = second[0], first[0]
    (folder / GROUPS).write_text(json.dumps(saved))


def test_edited_groups_are_refused(tmp_path: Path) -> None:
    """An exchanged member was groups_text as if the run had made those groups."""
    folder = run(tmp_path / "run", f"chains(groups={GREEDY})")
    edit(folder)
    found = collect([folder])
    assert found["groups"] == []
    why = "it does not have the digest it had when it was written"
    assert f"{folder / GROUPS} is damaged ({why}): groups are not shown." in found["problems"]


@pytest.mark.parametrize("stopped", [False, True], ids=["ended", "stopped"])
def test_damaged_groups_are_written_again_by_resume(
    stopped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = f"chains(groups={GREEDY})"
    exp = ff.experiment(
        "fedavg", on=ON, topology=topology, rounds=2, clients_per_round=1, model="logistic"
    )
    run_one(
        exp, ExecutionConfig(threads=1), folder := tmp_path / "run", until=1 if stopped else None
    )
    identity = read_record(folder).identity
    before = read_groups(folder, identity)
    edit(folder)
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert "groups.json is damaged (it does not have the digest" in capsys.readouterr().err
    assert read_groups(folder, identity) == before
    assert read_record(folder).status == "done"


def test_the_report_needs_no_data(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", f"chains(groups={GREEDY})")
    [shown] = collect([folder])["groups"]
    grouped = read_groups(folder, read_record(folder).identity)
    assert grouped is not None
    order = [client for group in grouped.groups for client in group]
    assert (shown["order"], shown["clients"], shown["by"]) == (order, 10, grouped.by)
    assert np.array_equal(shown["before"], counts()[order])
    assert np.array_equal(shown["after"], grouped.together or ())
    assert shown["sizes"] == [len(group) for group in grouped.groups]
    shutil.copytree(folder, tmp_path / "damaged")
    for change in ({"groups": [[0], [1]]}, {"run": "another"}, {"counts": [[1]]}, {"groups": "x"}):
        output = verified(json.loads((folder / GROUPS).read_text())) | change
        (tmp_path / "damaged" / GROUPS).write_text(json.dumps(signed(output)))
        found = collect([tmp_path / "damaged"])
        assert found["groups"] == []
        assert len(found["runs"]) == 1
        assert any("groups.json is damaged" in problem for problem in found["problems"])
