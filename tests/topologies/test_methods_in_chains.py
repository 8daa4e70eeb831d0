"""Every method of ours in chains: the numbers of a star whose clients are whole chains, or it is
refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.messages import Reply
from fedflat.data.federation import Federation
from fedflat.data.sets.in_memory import clients_of
from fedflat.errors import SettingError
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source
from fedflat.execution.in_process import InProcess
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import describers_of, prepare
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler
from test_every_method import EVERY, experiment, method_of

GROUPS = [[0, 2], [1], [3]]
ROUNDS = 3
CHAINS = f"fedseq(groups=given_groups({GROUPS}))"
REFUSED = {
    "memory at each client": "stores a state at each client",
    "sends": "sends vectors to the server",
    "wants": "needs the model of every client",
    "place": "centralised training",
    "model": "must start from the server's model",
}
"""Why, by a word of it."""


def in_chains(text: str) -> Experiment:
    """All superclients in every round."""
    exp = experiment(method_of(text))
    sampler = ClientSampler(clients=4, kind=exp.sampler.kind)
    method = exp.method + method_of(CHAINS)
    return replace(exp, method=method, topology=None, sampler=sampler, rounds=ROUNDS)


class Whole:
    """Clients of a star are the chains of another run: a request goes through all their clients,
    one after the other."""

    def __init__(self, chains: RunSetup) -> None:
        self.chains = chains

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        self.job, self.fed = job, fed
        yield self

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            if not request.broadcast.instruction.trains:
                yield run_client(self.job, request, self.fed.data(request.client))
                continue
            t, x, buffers = (
                request.broadcast.round,
                request.broadcast.params,
                request.broadcast.buffers,
            )
            [order] = [
                c for c in self.chains.server.select(t)["server"] if c[0] in GROUPS[request.client]
            ]
            replies: list[Reply] = []
            for client in order:
                broadcast = replace(request.broadcast, params=x, buffers=buffers)
                reply, _ = run_client(
                    self.chains.job, Request(client, broadcast, {}), self.chains.fed.data(client)
                )
                assert not reply.extras
                x, buffers = x - reply.delta, reply.buffers
                replies.append(reply)
            samples = sum(reply.samples for reply in replies)
            loss = sum(reply.samples * reply.metrics["loss"] for reply in replies) / samples
            yield (
                Reply(
                    request.client,
                    request.broadcast.params - x,
                    buffers,
                    sum(reply.examples for reply in replies),
                    samples,
                    {},
                    {"loss": loss},
                    sum(reply.steps for reply in replies),
                    request=request.id,
                ),
                {},
            )


def star_of_chains(text: str, chains: RunSetup) -> Experiment:
    """The same method without the chains, on clients that hold what a whole chain holds."""
    exp = experiment(method_of(text))
    data = [
        chains.fed.data(client).batch(torch.arange(chains.fed.size(client)), torch.float32)
        for client in range(4)
    ]
    held = [
        (torch.cat([data[k].inputs for k in group]), torch.cat([data[k].targets for k in group]))
        for group in GROUPS
    ]
    test = chains.fed.test.batch(torch.arange(len(chains.fed.test)), torch.float32)
    on = clients_of(held, test=(test.inputs, test.targets), classes=3)
    sampler = ClientSampler(clients=3, kind=exp.sampler.kind)
    return replace(exp, on=on, sampler=sampler, rounds=ROUNDS)


def never(exp: Experiment, where: str) -> Any:
    """No run comes first."""
    raise AssertionError


@cache
def refusal(text: str) -> str:
    try:
        prepare(in_chains(text))
    except SettingError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("text", EVERY)
def test_a_method_in_chains(text: str) -> None:
    why = refusal(text)
    if why:
        assert any(word in why for word in REFUSED.values()), why
        assert re.search(r"Leave (it|one of them) out|Remove one of them", why), why
        return
    chains = collect_descriptions(
        prepare(in_chains(text)), RunFolder(), InProcess(threads=1), never
    )
    found = train(chains, executor=InProcess(threads=1))
    described = describers_of(chains.exp, chains.job)
    known = any(piece.known_domains for piece in chains.job.pieces)
    if described or known or not chains.fed.data(0).examples.has_classes:
        # of which no star of chains can be made here
        assert all(math.isfinite(row["loss"]) for row in found.rows)
        return
    expected = train(star_of_chains(text, chains), executor=Whole(chains))
    assert found.model is not None
    assert expected.model is not None
    assert torch.equal(found.model.params, expected.model.params)
    assert torch.equal(found.model.buffers, expected.model.buffers)
    scores = [
        [(row["loss"], row["accuracy"], row["train_loss"]) for row in one.rows]
        for one in (found, expected)
    ]
    assert scores[0] == scores[1]


def test_methods_that_chains_refuse() -> None:
    """Duals, control variates, states of clients, and those who want every client's own reply;
    nothing else."""
    refused = {text: refusal(text) for text in EVERY}
    for text, why in refused.items():
        method = method_of(text)
        at_client = [
            piece
            for piece in in_pieces(text)
            if piece.state_vectors
            or piece.upload_vectors
            or piece.needs_cohort_order
            or piece.needs_server_model
        ]
        assert bool(why) == bool(at_client or method.reply_listeners or method.pooled), (text, why)
    assert {"sam", "asam", "man", "prox", "mixup", "clip", "cutout", "layerwise_sam"} <= {
        text.partition("(")[0] for text, why in refused.items() if not why
    }


def in_pieces(text: str) -> Any:
    return experiment(method_of(text)).pieces()
