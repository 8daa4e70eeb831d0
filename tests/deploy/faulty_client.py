"""A client with a fault: ``python faulty_client.py FAULT deploy join FILE --data DATA ...``.

late N       every second answer comes N seconds later
nan          every second answer has NaN in it
oversized    every second answer is far larger than the model
replay       the first answer is sent again before every later one, as it was signed
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from typing import Any

import torch

from fedflat.cli import main
from fedflat.deploy import node
from fedflat.deploy.certificates import SERVER
from fedflat.execution.wire_format import ClientReply, RequestMessage, decode, encode

Node = node.Node


class FaultyNode(Node):
    """Answers as the fault says."""

    fault, seconds = "", 0.0
    answered = 0
    first: bytes | None = None

    def _answer(self, message: RequestMessage, broadcast: bytes, content: bytes) -> Any:
        answer, afresh = super()._answer(message, broadcast, content)
        self.answered += 1
        if self.answered % 2:
            return answer, afresh
        if self.fault == "late":
            time.sleep(self.seconds)
        reply = decode(answer)
        if isinstance(reply, ClientReply) and self.fault == "nan":
            broken = replace(reply.reply, delta=reply.reply.delta * torch.nan)
            return encode(replace(reply, reply=broken)), afresh
        if isinstance(reply, ClientReply) and self.fault == "oversized":
            large = replace(reply.reply, delta=torch.zeros(10**6))
            return encode(replace(reply, reply=large)), afresh
        return answer, afresh

    def _send(self, kind: str, body: bytes = b"", **fields: Any) -> bool:
        if kind == "reply" and self.fault == "replay":
            if self.first is None:
                self.first = self.signer.seal(SERVER, kind, self.server, body, **fields)
            else:
                self.link.send(self.first)
        return super()._send(kind, body, **fields)


if __name__ == "__main__":
    FaultyNode.fault, _, seconds = sys.argv[1].partition("=")
    FaultyNode.seconds = float(seconds or 0)
    node.Node = FaultyNode  # type: ignore[misc]
    os.environ["FEDFLAT_WATCHED"] = "1"
    sys.exit(main(sys.argv[2:]))
