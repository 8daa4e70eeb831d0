"""Wrong use ends with one message and status 2, and nothing is written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from data.miniature import IDX, idx, write_cifar_files, write_idx_set
from experiments.small import start
from fedflat.cli import main
from fedflat.data.files import paths as places


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A machine without data sets, and a folder to be in."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(places, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(places, "SYSTEM", tmp_path / "system")
    monkeypatch.delenv("FEDFLAT_DATA", raising=False)
    yield
    places.set_data_dir(None)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a refusal; also that it is one, that it is short, and that nothing was
    made."""
    before = sorted(Path.cwd().rglob("*"))
    try:
        status = main(words)
    except SystemExit as ended:  # a wrong word on the command line
        status = ended.code
    output, messages = capsys.readouterr()
    assert status == 2, messages
    assert output == ""
    assert "Traceback" not in messages
    assert sorted(Path.cwd().rglob("*")) == before
    return messages


RUN = ("run", "--rounds", "2", "--out", "out", "--quiet")

METHODS = [
    (
        "feddin",
        "unknown method 'feddin'. Did you mean 'feddyn'? `fedflat list methods` shows all of them.",
    ),
    (
        "feddyn(alfa=0.1)",
        "feddyn() has no argument 'alfa'. Did you mean 'alpha'? It takes: alpha, by_size, penalty.",
    ),
    ("fedsam(rho=-0.1)", "rho must be a number of at least 0, found -0.1"),
    ("feddyn(alpha=-1)", "alpha must be a number above 0, found -1"),
    ("feddyn(alpha=0)", "alpha must be a number above 0, found 0"),
    ("fedsam(rho='big')", "rho must be a number of at least 0, found 'big'"),
    ("fedsam(0.1, 0.2)", "too many positional arguments"),
    ("fedsam(rho=)", "cannot read 'fedsam(rho=)'"),
    ("__import__('os').system('true')", "cannot read"),
    ("digits(iid())", "'digits' is a data set, not a method"),
    ("sam(rho=0.1) + fedsam(rho=0.2)", "two client pieces store their state under the name 'sam'"),
    ("fedavg + 3", "cannot read '3'"),
    ("chain(server_momentum(), naive_fedgloss())", "has a state, and"),
    (
        "chain(fedgloss(admm=False), naive_fedgloss(admm=False))",
        "the state would be updated 2 times",
    ),
]


@pytest.mark.parametrize(("method", "message"), METHODS, ids=[method for method, _ in METHODS])
def test_methods(capsys: pytest.CaptureFixture[str], method: str, message: str) -> None:
    messages = refused(capsys, *RUN, method)
    assert messages.startswith("fedflat: error: ")
    assert message in messages


OPTIONS = [
    (("--round", "5"), "unknown option '--round'. Did you mean '--rounds'?"),
    (
        ("--client-per-round=5",),
        "unknown option '--client-per-round=5'. Did you mean '--clients-per-round'?",
    ),
    (("--rounds", "0"), "rounds must be a whole number of at least 1, found 0"),
    (("--rounds", "many"), "--rounds: must be a whole number, such as 100 or 1e3, found 'many'"),
    (("--batch-size", "0"), "batch size must be a whole number of at least 1, found 0"),
    (("--clients-per-round", "0"), "clients a round must be a whole number of at least 1, found 0"),
    (
        ("--clients-per-round", "101"),
        "a round selects 101 clients, but there are only 100. Use at most 100",
    ),
    (("--local-epochs", "0"), "epochs must be a whole number of at least 1, found 0"),
    (("--local-epochs", "2", "--local-steps", "1"), "not allowed with argument"),
    (("--lr", "-0.1"), "lr must be a number of at least 0, found -0.1"),
    (
        ("--momentum", "1.5"),
        "local training: momentum must be a number of at least 0 and at most 1",
    ),
    (("--weight-decay", "-1"), "local training: weight decay must be a number of at least 0"),
    (("--lr", "nan"), "lr must be a number of at least 0, found nan"),
    (("--lr", "decai(0.1, 0.9)"), "unknown schedule 'decai'. Did you mean 'decay'?"),
    (
        ("--lr", "0.01,0.1"),
        "a schedule. A run takes one value, `fedflat sweep` and `compare` several. Known: cos",
    ),
    (("--weight-decay", "sam"), "weight_decay must be a number or a schedule: 'sam' is a method"),
    (
        ("--batch-size", "16,32"),
        "found '16,32'. A run takes one value, `fedflat sweep` and `compare` several",
    ),
    (("--clip", "0"), "local training: clip must be a number above 0, found 0.0"),
    (("--momentum", "warm"), "unknown schedule 'warm'. Did you mean 'warmup'?"),
    (("--sampler", "unifrom"), "Did you mean 'uniform'?"),
    (("--weighting", "sizes"), "Did you mean 'sized'?"),
    (("--dtype", "float"), "dtype must be 'float32' or 'float64' or 'mixed', found 'float'"),
    (
        ("--layout", "last"),
        "layout must be 'auto' or 'contiguous' or 'channels-last', found 'last'",
    ),
    (("--on-bad", "ignore"), "on_bad must be 'raise' or 'skip' or 'stop', found 'ignore'"),
    (("--eval-every", "0"), "every must be a whole number of at least 1, found 0"),
    (("--seed", "-1"), "seed must be a whole number of at least 0, found -1"),
    (("--seeds", "0"), "seeds must be a whole number of at least 1, found 0"),
    (("--workers", "-1"), "workers must be a whole number of at least 0, found -1"),
    (("--threads", "0"), "threads must be a whole number of at least 1, found 0"),
    (("--device", "gpu"), "device 'gpu' cannot be read. Write cpu, cuda, cuda:1 or mps."),
    (("--checkpoint-every", "-3"), "checkpoint_every must be a number of at least 0, found -3.0"),
    (("--target", "0"), "an accuracy lies between 0 and 1"),
    (("--target", "120%"), "an accuracy lies between 0 and 1, or 0% and 100%, found '120%'"),
    (("--model", "resnet21"), "unknown model 'resnet21'. Did you mean 'resnet2"),
    (("--model", "cnn"), "cnn: images must have at least"),
    (("--model", "mlp(hidden=[0])"), "found 0"),
    (
        ("--on", "digit(iid())"),
        "unknown data set 'digit'. Did you mean 'digits'? `fedflat list datasets` shows all",
    ),
    (("--on", "digits(lda(-1))"), "lda: alpha must be a number of at least 0"),
    (("--on", "digits(lda(0), clients=5000)"), "5000"),
    (("--on", "digits(iid(), clients=0)"), "clients must be a whole number of at least 1, found 0"),
    (("--on", "digits(sam())"), "sam"),
    (("--csv", "--markdown"), "not allowed with argument"),
]


@pytest.mark.parametrize(
    ("words", "message"), OPTIONS, ids=[" ".join(words) for words, _ in OPTIONS]
)
def test_options(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    assert message in refused(capsys, *RUN, "fedavg", *words)


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    messages = refused(capsys, "rum", "fedavg")
    assert "unknown word 'rum'. Did you mean 'run'? Known: analyse, " in messages
    assert "`fedflat --help`" in messages
    assert "METHOD" in refused(capsys, "run")
    messages = refused(capsys, "run", "fedavg", "fedsam", "--rounds", "2")
    assert (
        "run takes one method, found 'fedsam' after 'fedavg'. To compare both: fedflat compare"
        in messages
    )
    assert "Did you mean 'list'?" in refused(capsys, "data", "lst")
    assert "unknown option '--quite'. Did you mean '--quiet'?" in refused(
        capsys, "resume", "x", "--quite"
    )
    assert "unknown method 'feddin'. Did you mean 'feddyn'?" in refused(
        capsys, "list", "methods", "feddin"
    )
    assert "unknown data set 'digit'" in refused(capsys, "data", "show", "digit")
    assert "was given twice" in refused(
        capsys, "compare", "fedavg", "fedavg()", "--out", "out", "--quiet"
    )


REPLAYS = [
    (None, "cannot be read"),
    ("{", "cannot be read"),
    ("[]", "cannot be read"),
    ("{}", "cannot be read ('cohorts')"),
    ('{"cohorts": [[0], [1]], "orders": [{"zero": [[0]]}, {}]}', "cannot be read"),
    ('{"cohorts": [[0], [1]], "orders": [[0], [1]]}', "cannot be read"),
    ('{"cohorts": 3}', "cohorts must be a list with a list of clients for each round"),
    ('{"cohorts": [[0]]}', "1 cohorts were given for 2 rounds"),
    (
        '{"cohorts": [[0], [100]]}',
        "the cohort of round 2 must be different clients from 0 to 99, found [100]",
    ),
    ('{"cohorts": [[0], [1]], "orders": [{"0": [[0]]}]}', "none for client 1 in round 2"),
    (
        '{"cohorts": [[0], [1]], "orders": [{"0": [[0]]}, {"1": [[99999]]}]}',
        "orders of round 2, client 1 must be",
    ),
    (
        '{"cohorts": [[0], [1]], "orders": [{"0": [[0]]}, {"1": 5}]}',
        "orders of round 2, client 1 must be",
    ),
]


@pytest.mark.parametrize(("text", "message"), REPLAYS, ids=[str(text) for text, _ in REPLAYS])
def test_replays(capsys: pytest.CaptureFixture[str], text: str | None, message: str) -> None:
    if text is not None:
        Path("replay.json").write_text(text)
    messages = refused(capsys, *RUN, "fedavg", "--replay", "replay.json")
    assert message in messages
    if message.startswith("cannot be read"):
        assert "--replay replay.json: " in messages
        assert '{"cohorts": [[0, 3], ...]' in messages


def on_files(capsys: pytest.CaptureFixture[str], name: str, folder: Path) -> str:
    return refused(
        capsys, *RUN, "fedavg", "--on", f"{name}(iid(), clients=2)", "--data-dir", str(folder)
    )


def test_data_that_are_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    messages = on_files(capsys, "mnist", tmp_path / "files")
    assert "mnist is not on this machine" in messages
    assert str(tmp_path / "files") in messages
    assert "`fedflat data get mnist`" in messages


def test_data_files_that_are_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "files" / "mnist"
    write_idx_set(folder, 40, 10)
    images, labels = folder / IDX[0], folder / IDX[1]
    kept = {path: path.read_bytes() for path in (images, labels)}

    def error_of(path: Path, content: bytes) -> str:
        path.write_bytes(content)
        try:
            return on_files(capsys, "mnist", tmp_path / "files")
        finally:
            path.write_bytes(kept[path])

    assert "found only" in error_of(images, kept[images][:-100])
    assert "it ends within its header" in error_of(images, kept[images][:9])
    assert "is no idx file" in error_of(images, b"PK\3\4 something else")
    assert "Is it the right file?" in error_of(images, kept[labels])
    assert "labels must be below 10, found 77 at example 0" in error_of(
        labels, idx(np.full(40, 77))
    )
    assert "They do not belong together" in error_of(labels, idx(np.zeros(39)))
    images.unlink()
    packed = folder / f"{IDX[0]}.gz"
    packed.write_bytes(gzip.compress(kept[images])[:-50])
    assert "is damaged or was cut off" in on_files(capsys, "mnist", tmp_path / "files")
    packed.unlink()
    assert f"without {IDX[0]}" in on_files(capsys, "mnist", tmp_path / "files")


def test_cifar_files_that_are_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "files" / "cifar-10-batches-bin"
    write_cifar_files(folder, "cifar10", 4)
    path = folder / "data_batch_3.bin"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert f"whole number of records of 3073 bytes, found {4 * 3073 - 1} bytes" in on_files(
        capsys, "cifar10", tmp_path / "files"
    )
    path.write_bytes(bytes([10]) + content[1:])
    assert "labels must be below 10, found 10 at example 0" in on_files(
        capsys, "cifar10", tmp_path / "files"
    )


def test_a_partition_file_with_an_empty_client(capsys: pytest.CaptureFixture[str]) -> None:
    Path("parts.json").write_text(json.dumps([[0, 1], []]))
    messages = refused(capsys, *RUN, "fedavg", "--on", "digits(from_file('parts.json'), clients=2)")
    assert "client '1' must have a list of at least one position" in messages


def test_run_folders(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    taken = tmp_path / "here" / "taken"
    taken.mkdir()
    (taken / "run.json").write_text(
        '{"fedflat": "0.0.1", "status": "running", "experiment": {}, "how": {}}'
    )
    messages = refused(capsys, "run", "fedavg", "--out", "taken", "--quiet")
    assert "taken is already there and not empty. `fedflat resume taken` continues it" in messages
    assert "taken was made by fedflat 0.0.1, this is" in refused(capsys, "resume", "taken")
    (taken / "run.json").write_text('{"fedflat"')
    assert "taken/run.json is damaged" in refused(capsys, "resume", "taken")
    assert "holds neither a run (run.json) nor a study" in refused(capsys, "resume", "nowhere")
    assert "could not be written" in refused(
        capsys, "run", "fedavg", "--out", "taken/run.json/x", "--quiet"
    )


def test_status_of_the_process(tmp_path: Path) -> None:
    """Once for real: what the shell sees."""
    process = start("run", "feddin", "--out", str(tmp_path / "out"))
    output, messages = process.communicate()
    assert (process.returncode, output) == (2, "")
    assert messages == (
        "fedflat: error: unknown method 'feddin'. Did you mean 'feddyn'? `fedflat list methods` shows all of them.\n"
    )
    assert not (tmp_path / "out").exists()


DEVICES = '{"0": {"speed": 9, "down": 9, "up": 9}, "1": {"speed": 9, "down": 9, "up": 9}}'


@pytest.mark.parametrize(
    ("clock", "message"),
    [
        ("measured('there.json')", "has no entry for 98 of the 100 clients: 2, 3, 4, 5, 6, ..."),
        (
            "measured('negative.json')",
            "client '0': speed must be a number of at least 1e-09, found -3",
        ),
        ("measured('text.json')", "must hold an object with an entry for every client, as in {"),
        ("measured('bytes.json')", "but is not JSON"),
        ("measured('list.json')", "must hold an object with an entry for every client"),
        ("measured('nowhere.json')", "there is no file 'nowhere.json'"),
        ("devices(up=0)", "up must be a number of at least 1e-09, found 0"),
        (
            "devices(speed='fast')",
            "speed must be a number or a distribution such as lognormal(100, 0.5), found 'fast'",
        ),
        ("devices(deadline=-1)", "deadline must be a number above 0, found -1"),
        ("devices(extra=50)", "extra must be a number"),
        ("devices(extra=9.5)", "With extra=9.5 in the clock, 105 are asked and 10 waited for."),
        ("devices(present=3)", "present must be an availability such as"),
        ("devices(present=on_off(0, 5))", "on must be a number above 0, found 0"),
        ("lognormal(3)", "'lognormal' is a distribution, not a clock. Known: devices, measured."),
    ],
)
def test_clocks(capsys: pytest.CaptureFixture[str], clock: str, message: str) -> None:
    Path("there.json").write_text(DEVICES)
    Path("negative.json").write_text(DEVICES.replace("9", "-3"))
    Path("text.json").write_text("speed 9")
    Path("bytes.json").write_bytes(b"\x80\xff\0")
    Path("list.json").write_text("[1, 2]")
    assert message in refused(capsys, *RUN, "fedavg", "--clock", clock, "--min-replies", "1")


@pytest.mark.parametrize(
    ("method", "more", "message"),
    [
        (
            "hfl(clusters=4, T_c=50)",
            (),
            "has only 2: they would never merge. Let them merge more often (every, in hfl T_c)",
        ),
        (
            "fedasyncseq(groups=4, R=50)",
            (),
            "the run has only 2: they would never merge. Make R smaller",
        ),
        (
            "fedseq(groups=greedy(psi='labels', d_min=9999))",
            (),
            "d_min=9999 examples, but all 100 clients together",
        ),
        (
            "fedseq(groups=random(d_min=40, k_max=3))",
            (),
            "room for 0 of its 1 clients with k_max=3. Lower d_min or raise",
        ),
        (
            "fedseq(groups=greedy(psi='labels', d_min=300, k_max=2))",
            (),
            "the k_max=2 clients with most have",
        ),
        (
            "fedseq(groups=icg(100, psi='labels'))",
            (),
            "100 superclients of 100 clients are chains of one client each",
        ),
        ("hfl(clusters=4, T_c=0)", (), "hfl: T_c must be a whole number of at least 1, found 0"),
        (
            "fedasync(alpha=2)",
            (),
            "fedasync: alpha must be a number above 0 and at most 1, found 2",
        ),
        (
            "fedasync()",
            ("--clock", "devices(deadline=3)"),
            "does not wait for clients, so there is no round that a deadline could",
        ),
        (
            "fedavg",
            ("--clock", "devices.json"),
            "cannot read 'devices.json' in 'devices.json' as a clock. Known: devices",
        ),
        (
            "fedavg",
            ("--clock", "measured()"),
            "measured(path, *, deadline=None, extra=0.0, present=None): missing a requi",
        ),
        ("fedseq(groups=500)", (), "500 groups were asked for, but there are only 100 clients"),
        (
            "hfl(clusters=500, T_c=1)",
            (),
            "500 groups were asked for, but there are only 100 clients",
        ),
        ("fedseq(groups=icg(500, psi='labels'))", (), "500 groups cannot be made of 100 clients"),
        ("fedseq(groups=100)", (), "100 superclients of 100 clients are chains of one client each"),
        (
            "fedseq(groups=random(d_min=1))",
            (),
            "each group would be one client. Raise d_min, or set k_max=1",
        ),
        (
            "fedcyclic()",
            ("--clients-per-round", "1"),
            "are chains of one client each, so no client would train another one's model",
        ),
        (
            "hfl(clusters=given_groups([[0, 1], []]), T_c=1)",
            ("--on", "digits(clients=2)"),
            "leave no group empty",
        ),
        (
            "fedseq(groups=greedy(psi='confidence', d_min=100))",
            ("--server-data", "public_part(digits())"),
            "100 examples of the server's public set are also in the test set",
        ),
        (
            "fedseq(groups=greedy(psi='confidence', d_min=100))",
            (),
            "Name some: --server-data 'digits()'",
        ),
    ],
)
def test_wrong_topologies_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], method: str, more: tuple[str, ...], message: str
) -> None:
    messages = refused(capsys, *RUN, method, "--on", "digits(lda(0))", *more)
    assert message in messages
    assert messages.count("\n") == 1


def test_groups_that_turn_out_impossible(capsys: pytest.CaptureFixture[str]) -> None:
    """Descriptions that clients have sent by then are kept."""
    words = ["fedseq(groups=kmeans(psi='labels', d_min=40, k_max=3))", "--on", "digits(lda(0))"]
    assert main([*RUN, *words]) == 2
    assert "fewer than d_min=40" in capsys.readouterr().err
    assert Path("out/descriptions/asked.jsonl").read_bytes().count(b"\n") == 100


def test_replies_that_a_clock_may_lose(capsys: pytest.CaptureFixture[str]) -> None:
    output = refused(capsys, *RUN, "fedavg", "--clock", "devices(deadline=3)")
    assert "Say with how many a round may go on: --min-replies 1." in output


def test_a_deadline_that_no_client_meets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "fedavg", "--clock", "devices(deadline=0.001)", "--min-replies", "1"]) == 2
    output = capsys.readouterr().err
    assert (
        "round 1: no client met the deadline of 0.001 s; the first reply would have come after "
        in output
    )
    assert "Set a later deadline" in output
