"""A gateway as a process of its own, over a scratch home."""

from __future__ import annotations

import os
import select
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import msgspec

from tests.cli.conftest import Home
from tests.forks import Forked, start_clew
from tests.patience import PATIENCE

ANSWER = "an answer after all"


def wait_for(path: Path) -> None:
    """Until the file is there."""
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.02)


class GatewayProcess:
    """`clew serve`, with what it has said of itself."""

    def __init__(self, home: Home, process: Forked, told: dict[str, Any]) -> None:
        self.home = home
        self.process = process
        self.told = told
        self.url = told["url"]
        self.told = told
        self.token_file = told["token_file"]
        self.complaints = ""
        """What it has said beside its answer, when it has ended."""

    @property
    def token(self) -> str:
        return (self.home.path / "gateway.token").read_text("ascii").strip()

    def ask(self, method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        return httpx.request(method, self.url + path, headers=headers, timeout=PATIENCE, **more)

    def end(self, number: int) -> int:
        """Send a signal, and wait for the end."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def run_gateway(home: Home, *args: str) -> Iterator[GatewayProcess]:
    reading, writing = os.pipe()
    with (
        Path(os.devnull).open("rb") as nothing,
        os.fdopen(reading, "rb") as output,
        tempfile.TemporaryFile() as beside,
    ):
        process = start_clew(
            ["serve", "--port", "0", "--json", *args],
            env={**os.environ, "CLEW_HOME": str(home.path)},
            cwd=None,
            streams=(nothing.fileno(), writing, beside.fileno()),
        )
        os.close(writing)
        try:
            gateway = GatewayProcess(home, process, read_line(output))
            yield gateway
        finally:
            process.terminate()
            process.wait(PATIENCE)
            beside.seek(0)
            complaints = beside.read().decode()
        gateway.complaints = complaints


def read_line(output: IO[bytes]) -> dict[str, Any]:
    ready, _, _ = select.select([output], [], [], PATIENCE)
    line = output.readline() if ready else b""
    assert line, "the gateway did not start"
    told: dict[str, Any] = msgspec.json.decode(line)
    return told


def hold(home: Home) -> None:
    """Let the model begin its answer, and wait."""
    files = {"touch": str(home.path / "touch"), "hold": str(home.path / "hold")}
    home.script({"text": ANSWER, "chunk": 100} | files)
