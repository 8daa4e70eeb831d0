"""The dashboard in a browser while a run trains: real processes, a real browser."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from experiments.small import FEDFLAT, PATIENCE

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium to draw it: apt-get install chromium"
)


@pytest.mark.slow
def test_the_page_follows_a_run(tmp_path: Path) -> None:
    command = [FEDFLAT, "dashboard", "runs", "--port", "0"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    run = None
    try:
        with api.sync_playwright() as driver:
            arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = driver.chromium.launch(
                executable_path=CHROMIUM, args=arguments, timeout=PATIENCE * 1000
            )
            page = browser.new_page()
            page.set_default_timeout(PATIENCE * 1000)
            complaints: list[str] = []
            asked: list[str] = []
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(address)
            assert page.inner_text("#news") != "all runs have ended"
            words = [
                "fedavg",
                "--rounds",
                "1000000",
                "--eval-every",
                "1",
                "--model",
                "logistic",
                "--quiet",
            ]
            run = subprocess.Popen([FEDFLAT, "run", *words, "--out", "runs/mine"], cwd=tmp_path)
            page.wait_for_selector("#training path", state="attached")
            before = page.locator("#training path").evaluate_all(
                "all => all.map((one) => one.getAttribute('d'))"
            )
            page.wait_for_function(
                "before => JSON.stringify([...document.querySelectorAll('#training path')].map((one) => "
                "one.getAttribute('d'))) !== before",
                arg=str(page.evaluate("before => JSON.stringify(before)", before)),
            )
            assert page.inner_text("#news") == "live"
            assert complaints == []
            assert asked
            assert all(url.startswith((address, "data:")) for url in asked)
            browser.close()
    finally:
        for process in filter(None, (run, server)):
            process.send_signal(signal.SIGINT)
            process.wait()
        server.stdout.close()
