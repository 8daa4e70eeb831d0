"""The transport on NVIDIA FLARE: it can be opened again as often as needed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedflat.deploy.transport import missing_packages

if missing_packages():
    pytest.skip("needs the extra fedflat[deploy]", allow_module_level=True)

from deploy.real_clients import PATIENCE, free_port
from fedflat.deploy.cells import CellTransport

MOST = 10**6
ECHO = """
import os, sys
from pathlib import Path
from fedflat.deploy import cells

cells.RETRY = 0.1
link = cells.CellLink("A", f"grpc://127.0.0.1:{sys.argv[1]}", {}, Path(sys.argv[2]), 10**6)
while (content := link.receive(600)) != b"end":
    link.send(content + b" back")
os._exit(0)
"""


def answered(transport: CellTransport, content: bytes) -> bytes:
    """What the client answers, as soon as it is connected."""
    end = time.monotonic() + PATIENCE
    while transport.online() != {"A"} or not transport.push("A", content):
        assert time.monotonic() < end
        time.sleep(0.02)
    (answer,) = transport.pull(PATIENCE)
    return answer


@pytest.mark.slow
def test_a_transport_that_is_opened_again_and_again(tmp_path: Path) -> None:
    """By its own process, which loses it or makes another; a client connects again each time."""
    port, place = free_port(), tmp_path / "a"
    place.mkdir()
    client = subprocess.Popen([sys.executable, "-c", ECHO, str(port), str(place)])
    transport = CellTransport("127.0.0.1", port, {}, tmp_path, MOST)
    try:
        assert answered(transport, b"1") == b"1 back"
        transport.reopen()
        assert answered(transport, b"2") == b"2 back"
        transport.close()
        transport = CellTransport("127.0.0.1", port, {}, tmp_path, MOST)
        assert answered(transport, b"3") == b"3 back"
        assert not transport.push("B", b"")
        assert transport.push("A", b"end")
        assert client.wait(PATIENCE) == 0
    finally:
        client.kill()
        client.wait()
        transport.close()
