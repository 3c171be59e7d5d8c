"""A chat until it can be typed into, beside `clew list`; and the embedded model's first word."""

from __future__ import annotations

import asyncio
import compileall
import os
import pty
import re
import select
import statistics
import subprocess
import sys
import termios
import time
from pathlib import Path

import clew
from benchmarks.corpora import Setting
from benchmarks.startup import cpu
from benchmarks.timing import Finding, seconds
from clew.agent.models.weights import fetch_weights
from clew.config import shared_cache_dir

READY_BAR = 3.0
FIRST_BAR = 3.0
"""Seconds from Enter to the first word, on files that have been read before."""

ROUNDS = 9
PATIENCE = 60.0

_CLEW = [sys.executable, "-c", "from clew.cli import main; main()"]
_PROMPT = re.compile(r"(^|\n)\S*> \S*\Z")
_ANSWER = re.compile(r"\nSession [0-9a-f-]{36}\n+\S")
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


class Chat:
    """`clew chat --plain` in a terminal."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 100))
        self.process = subprocess.Popen(
            [*_CLEW, "chat", "--plain"],
            env=environment,
            cwd=folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._text = ""

    def wait_for(self, pattern: re.Pattern[str]) -> None:
        """Read until this stands on the screen."""
        limit = time.monotonic() + PATIENCE
        while not pattern.search(self._text):
            ready, _, _ = select.select([self._master], [], [], max(0, limit - time.monotonic()))
            if not ready:
                raise SystemExit(f"The chat did not get there: {self._text!r}")
            data = os.read(self._master, 65_536).decode(errors="replace")
            self._text = _STYLES.sub("", self._text + data.replace("\r\n", "\n"))

    def say(self, text: str) -> None:
        """Type a line."""
        os.write(self._master, f"{text}\n".encode())

    def kill(self) -> float:
        """End it, wherever it is; the seconds of CPU that it took."""
        self.process.kill()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self._master)
        return usage.ru_utime + usage.ru_stime


async def talking(setting: Setting) -> list[Finding]:
    """How soon one can type, and how soon the answer begins."""
    folder = setting.folder()
    environment = {
        name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")
    } | {"CLEW_HOME": str(folder / "home"), "TERM": "xterm"}
    await asyncio.to_thread(fetch_weights, shared_cache_dir() / "models")
    compileall.compile_dir(str(Path(clew.__file__).parent), quiet=2)
    rounds = 3 if setting.quick else ROUNDS
    return [
        await asyncio.to_thread(_ready, environment, folder, rounds),
        await asyncio.to_thread(_first_word, environment, folder, rounds),
    ]


def _ready(environment: dict[str, str], folder: Path, rounds: int) -> Finding:
    floor: list[float] = []
    ours: list[float] = []
    for _ in range(rounds):
        floor.append(cpu([*_CLEW, "list"], environment))
        chat = Chat(environment, folder)
        chat.wait_for(_PROMPT)
        ours.append(chat.kill())
    ratio = statistics.median(ours) / statistics.median(floor)
    return Finding(
        topic="talking",
        what="clew chat --plain, ready for typing",
        floor=f"clew list {seconds(statistics.median(floor))}",
        clew=seconds(statistics.median(ours)),
        compared=f"{ratio:.2f}x",
        bar=f"{READY_BAR}x",
        ok=ratio <= READY_BAR,
    )


def _first_word(environment: dict[str, str], folder: Path, rounds: int) -> Finding:
    """Enter is pressed as soon as there is a prompt, so that all loading is in it."""
    waits: list[float] = []
    for number in range(rounds + 1):
        place = folder / f"place {number}"  # a new session each time
        place.mkdir()
        chat = Chat(environment, place)
        chat.wait_for(_PROMPT)
        began = time.monotonic()
        chat.say("Hello!")
        chat.wait_for(_ANSWER)
        waits.append(time.monotonic() - began)
        chat.kill()
    warm = statistics.median(waits[1:])
    return Finding(
        topic="talking",
        what="first word of the embedded model after Enter",
        clew=seconds(warm),
        bar=f"{FIRST_BAR:.0f} s",
        ok=warm <= FIRST_BAR,
    )
