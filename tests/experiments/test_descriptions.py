"""Descriptions before the first round: requested once, by any executor, counted, stored, shared and
resumed."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from experiments import describing
from experiments.describing import ASKED, BREAK, FromMeans, Means, Noting, Pulled
from experiments.small import SIZES, begin, data, experiment, final, go_on, rows, timeless
from fedflat.composition.method import Method
from fedflat.errors import FedflatError, SettingError
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.loggers.logger import LoggedRunFolder
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import remarks
from fedflat.experiments.run_folder.description_store import DescriptionStore
from fedflat.experiments.run_folder.run_folder import DiskRunFolder, RunFolder
from fedflat.experiments.train import train
from fedflat.registry.specs import register
from fedflat.server.client_selection import ClientSampler
from fedflat.server.ledger import Ledger
from plugins.forgetting import forget

ON = "digits(lda(0), clients=8)"
BY_LABELS = "chains(groups=greedy(psi='labels', tau='gini', d_min=15, k_max=3))"


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register("describer", "means")(Means)
    register("initializer", "from_means")(FromMeans)

    @ff.method
    def pulled() -> Method:
        """Pulls."""
        return Method(client=(Pulled(),))

    @ff.method
    def noting() -> Method:
        """Notes."""
        return Method(server=(Noting(),))

    yield
    ASKED.clear()
    BREAK.clear()
    forget()


def means(times: int = 2) -> torch.Tensor:
    """What every client says, by hand."""
    fed = data().open(3)
    found = [
        fed.data(k).batch(torch.arange(size), torch.float64).inputs.mean(0)
        for k, size in enumerate(SIZES)
    ]
    return torch.stack([torch.stack([mean * (at + 1) for at in range(times)]) for mean in found])


def test_callbacks_are_called() -> None:
    """A client piece, a server piece and a start; each describer is asked once, and its bytes are
    counted by hand."""
    exp = experiment("pulled() + noting()", init=FromMeans(), rounds=1, dtype="float64")
    result = train(exp)
    assert ASKED == [0, 1, 2, 3, 4] * 2  # the piece and the server's piece want the same
    plain = train(experiment("fedavg", rounds=1, dtype="float64"))
    up, down = (
        5 * (2 * 4 + 1 * 4) * 8,
        5 * (2 * 4) * 8,
    )  # both describers up; the shared tensors of the piece go to every client
    assert result.rows[0]["up"] == plain.rows[0]["up"] + up
    assert result.rows[0]["down"] == plain.rows[0]["down"] + down
    assert result.rows[0]["samples"] == plain.rows[0]["samples"]
    assert result.rows[0]["known"] == pytest.approx(float(means().sum()), rel=1e-12)


def test_a_piece_reads_what_it_received() -> None:
    """One step of one client by hand: the gradient plus the shared tensors."""
    local = replace(experiment().local, batch_size=100)
    settings: dict[str, Any] = {
        "rounds": 1,
        "dtype": "float64",
        "local": local,
        "sampler": ClientSampler(cohorts=[[2]]),
    }
    plain, pulled = (train(experiment(text, **settings)).model for text in ("fedavg", "pulled()"))
    assert plain is not None
    assert pulled is not None
    expected = plain.params.clone()
    expected[:4] -= 0.05 * means()[:, 0].mean(0)
    torch.testing.assert_close(pulled.params, expected, rtol=0, atol=1e-14)


@pytest.mark.slow
def test_any_executor() -> None:
    exp = ff.experiment(
        "pulled()",
        ON,
        rounds=2,
        clients_per_round=3,
        model="mlp(hidden=[4])",
        dtype="float64",
        topology="star()",
    )
    setup = prepare(exp)
    here, spread, wired, stacked = (
        train(setup, executor=executor)
        for executor in (InProcess(threads=1), Workers(1), Loopback(), Stacked())
    )
    assert timeless(here.rows) == timeless(spread.rows) == timeless(wired.rows)
    assert stacked.rows[-1]["loss"] == pytest.approx(here.rows[-1]["loss"], rel=1e-11)
    assert [stacked.rows[-1][name] for name in ("down", "up")] == [
        here.rows[-1][name] for name in ("down", "up")
    ]


def test_broken_off_and_resumed(tmp_path: Path) -> None:
    """Those who have answered are not asked again, and the end is the same."""
    exp = experiment(
        "pulled()",
        topology="chains(groups=greedy(psi='labels', d_min=15))",
        sampler=ClientSampler(clients=1),
    )
    begin(exp, tmp_path / "whole")
    ASKED.clear()
    BREAK.add(3)
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "part")
    BREAK.clear()
    go_on(exp, tmp_path / "part")
    assert ASKED == [0, 1, 2, 3, 4]
    assert final(tmp_path / "part") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "part")) == timeless(rows(tmp_path / "whole"))


def test_stopped_later_and_resumed(tmp_path: Path) -> None:
    exp = experiment("pulled()", topology=BY_LABELS, sampler=ClientSampler(clients=1))
    begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "part", stop=3)
    ASKED.clear()
    go_on(exp, tmp_path / "part")
    assert ASKED == []
    assert final(tmp_path / "part") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "part")) == timeless(rows(tmp_path / "whole"))


@pytest.mark.parametrize(
    "damage", ["a byte of a tensor", "a byte of a line", "the last line cut short", "both lost"]
)
def test_damaged_files_are_asked_for_again(tmp_path: Path, damage: str) -> None:
    exp = experiment("pulled()", topology=BY_LABELS, sampler=ClientSampler(clients=1))
    begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "part", stop=3)
    lines, tensors = (
        tmp_path / "part/descriptions" / name for name in ("asked.jsonl", "vectors.bin")
    )
    for path, place in ((tensors, 50), (lines, 300)):
        if damage == f"a byte of a {'tensor' if path is tensors else 'line'}":
            content = bytearray(path.read_bytes())
            content[place] ^= 1
            path.write_bytes(content)
    if damage == "the last line cut short":
        lines.write_bytes(lines.read_bytes()[:-7])
    if damage == "both lost":
        lines.unlink()
        tensors.unlink()
    messages: list[str] = []
    go_on(exp, tmp_path / "part", messages=messages)
    assert bool(messages) == damage.startswith("a byte")
    assert final(tmp_path / "part") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "part")) == timeless(rows(tmp_path / "whole"))


def test_a_client_that_is_missing_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exp = experiment("pulled()")

    def fail(self: Means, client: Any) -> None:
        raise SettingError(f"client {client.request.client} has no time.")

    with monkeypatch.context() as patched:
        patched.setattr(describing.Means, "describe", fail)
        with pytest.raises(SettingError, match="client 0 has no time"):
            begin(exp, tmp_path / "run")
    assert go_on(exp, tmp_path / "run").status == "done"


def test_what_is_not_finite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        describing.Means, "describe", lambda self, client: torch.full((2, 4), torch.nan)
    )
    with pytest.raises(FedflatError, match=r"before the first round, client 0: .* NaN or infinite"):
        train(experiment("pulled()"))


def test_what_it_reveals_is_reported_before() -> None:
    output = remarks(prepare(experiment("pulled()", topology=BY_LABELS)))
    assert output == [
        "before the first round every client is asked for label_counts(): the server learns how many examples of "
        "each class every client holds, which is not private",
        "before the first round every client is asked for means(): the server learns what a client's inputs "
        "are on average",
    ]


def test_settings_that_depend_on_groups_are_checked_when_groups_are_known(tmp_path: Path) -> None:
    """Nothing is lost: descriptions that were sent are kept."""
    exp = experiment(topology=BY_LABELS, sampler=ClientSampler(clients=4))
    with pytest.raises(SettingError, match="are superclients, but there are only 2"):
        begin(exp, tmp_path / "run")
    lines = (tmp_path / "run/descriptions/asked.jsonl").read_text().splitlines()
    assert [json.loads(line)["client"] for line in lines] == [0, 1, 2, 3, 4]
    with pytest.raises(SettingError, match="are superclients, but there are only 2"):
        go_on(exp, tmp_path / "run")


def test_the_time_it_takes_is_training_too(tmp_path: Path) -> None:
    """Else examples a second would be those of the answers, in the time of the rounds alone."""
    result = begin(experiment(topology=BY_LABELS, rounds=1), tmp_path / "run")
    lines = [
        json.loads(line)
        for line in (tmp_path / "run/descriptions/asked.jsonl").read_text().splitlines()
    ]
    spent = sum(line["seconds"] for line in lines)
    assert 0 < spent < result.ledger.training < result.ledger.seconds
    assert result.speed == result.ledger.samples / result.ledger.training


def test_tensors_of_any_shape_are_kept(tmp_path: Path) -> None:
    sent = [
        torch.tensor(2.5),
        torch.empty(0, 3),
        torch.arange(3),
        torch.rand(2, 3).bfloat16(),
        torch.tensor([True]),
    ]
    for archive in (DescriptionStore(), DescriptionStore(tmp_path / "kept", "me")):
        for client, tensor in enumerate(sent):
            archive.keep(
                "x()", client, tensor, Ledger(client, 1, samples=2, training=0.5, seconds=0.5)
            )
        for kept in (
            archive,
            DescriptionStore(tmp_path / "kept", "me", held=False) if archive._log else archive,
        ):
            for tensor, found in zip(sent, kept.descriptions("x()", range(5)), strict=True):
                assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
                assert torch.equal(found, tensor)
            assert kept.cost("x()", 3) == Ledger(3, 1, samples=2, training=0.5, seconds=0.5)
            assert ("x()", 5) not in kept
    with pytest.raises(FedflatError, match="line 1 is not the one that was written there"):
        DescriptionStore(tmp_path / "kept", "another run", held=False)


def test_what_is_sent_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server reduces each tensor as it comes: however many clients there are, about one of them
    is alive."""
    sent: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    def server_transform(self: Means, learner: object, public: object, seed: int) -> Any:
        def read(tensor: torch.Tensor) -> torch.Tensor:
            sent.append(weakref.ref(tensor))
            alive.append(sum(one() is not None for one in sent))
            return tensor.sum().reshape(1, 1).expand(2, 4).clone()

        return read

    monkeypatch.setattr(describing.Means, "server_transform", server_transform)
    train(experiment("pulled()", rounds=1))
    assert len(alive) == 5
    assert max(alive) <= 2


def test_the_clock_waits_for_the_slowest(tmp_path: Path) -> None:
    """By hand: nothing is trained on, 64 bytes go up over each client's own link, and everybody at
    once."""
    devices = {str(k): {"speed": 100.0, "up": 10.0 * (k + 1), "down": 1e9} for k in range(5)}
    (tmp_path / "clock.json").write_text(json.dumps(devices))
    exp = experiment("noting()", clock=f"measured('{tmp_path / 'clock.json'}')", rounds=1)
    setup = collect_descriptions(
        prepare(exp), RunFolder(), InProcess(threads=1), lambda exp, place: {}
    )
    assert setup.initial_cost.clock == pytest.approx(64 / 10.0)


def test_an_asynchronous_server_starts_when_all_have_described_themselves(
    tmp_path: Path,
) -> None:
    """By hand: descriptions take 6.4 s as above. Then all five are at work on a model of 43
    numbers; client 4 has the fastest link and is done first, then client 3, then 2, long before
    client 4 is done again."""
    devices = {str(k): {"speed": 100.0, "up": 10.0 * (k + 1), "down": 172.0} for k in range(5)}
    (tmp_path / "clock.json").write_text(json.dumps(devices))
    more = {
        "clock": f"measured('{tmp_path / 'clock.json'}')",
        "rounds": 3,
        "sampler": ClientSampler(clients=5),
    }
    requests = {k: 1 + SIZES[k] / 100 + 172 / (10 * (k + 1)) for k in range(5)}
    undescribed = train(experiment("fedavg", topology="asynchronous(buffer=1)", **more))
    described = train(experiment("noting()", topology="asynchronous(buffer=1)", **more))
    assert [row["clock"] for row in undescribed.rows] == pytest.approx(
        [requests[4], requests[3], requests[2]], abs=1e-9
    )
    assert [row["clock"] for row in described.rows] == pytest.approx(
        [6.4 + requests[k] for k in (4, 3, 2)], abs=1e-9
    )


@pytest.mark.parametrize(
    ("grouping", "words"),
    [
        ("greedy(psi='labels', d_min=43)", "d_min=43 examples, but all 5 clients together have 42"),
        ("icg(6, psi='labels')", "6 groups cannot be made of 5 clients"),
        ("alike(6)", "6 groups cannot be made of 5 clients"),
    ],
)
def test_no_client_is_asked_for_impossible_groups(grouping: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        prepare(experiment(topology=f"chains(groups={grouping})"))


def test_a_tracked_run_keeps_what_comes_first(tmp_path: Path) -> None:
    """Whoever is told of the run besides, what clients said, who is with whom and a first run lie
    in its folder."""
    exp = ff.experiment(
        "fedavg",
        ON,
        rounds=1,
        clients_per_round=1,
        model="logistic",
        init="pretrained(digits(), rounds=1)",
        topology="chains(groups=greedy(psi='labels', d_min=400))",
    )
    run_folder = DiskRunFolder.create(tmp_path / "run", exp.texts(), {})
    train(exp, run_folder=LoggedRunFolder(run_folder, []))
    run_folder.close()
    for name in ("descriptions/asked.jsonl", "groups.json", "start/run.json"):
        assert (tmp_path / "run" / name).exists()
