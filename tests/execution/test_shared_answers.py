"""Answers of worker processes in shared memory."""

from __future__ import annotations

import torch

from fedflat.execution import shared_answers
from fedflat.execution.pickling import dumps, dumps_apart, loads, loads_each
from fedflat.execution.shared_answers import LEAST, SHARED, SharedAnswers


def test_large_tensors_go_through_shared_memory() -> None:
    """Small ones stay in the message; what was read does not change when the next is written."""
    large, small = torch.randn(LEAST // 4), torch.arange(3)
    memory = SharedAnswers()
    try:
        answers = []
        for factor in (1, 2):
            content, tensors = dumps_apart({"large": factor * large, "small": small}, LEAST)
            message = memory.write(content, tensors)
            assert message is not None
            assert message.startswith(SHARED)
            assert len(message) < LEAST
            answers.append(memory.read(message))
        for factor, answer in zip((1, 2), answers, strict=True):
            value = loads(answer.content, answer.tensors)
            assert torch.equal(value["large"], factor * large)
            assert value["small"].tolist() == [0, 1, 2]
    finally:
        memory.close()


def test_what_does_not_fit_is_left_to_the_pipe() -> None:
    memory = SharedAnswers()
    try:
        tensors = [torch.zeros(shared_answers.SIZE // 8 + 1) for _ in range(2)]
        assert memory.write(*dumps_apart(tensors, LEAST)) is None
    finally:
        memory.close()


def test_messages_that_are_sent_at_once() -> None:
    tensor, number = loads_each(dumps(torch.arange(3)) + dumps(5))
    assert tensor.tolist() == [0, 1, 2]
    assert number == 5
    assert list(loads_each(b"")) == []
