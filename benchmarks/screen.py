"""The full-screen chat: opening a long session, an answer that streams, keys meanwhile, its start.

Opening is measured in one process, with frames that go to Textual's headless driver. The rest is
the real program in a pseudo-terminal: the model is a script, all else is what a person would have.
"""

from __future__ import annotations

import asyncio
import compileall
import contextlib
import gc
import json
import os
import pty
import random
import re
import select
import statistics
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import NamedTuple

import clew
from benchmarks.corpora import Setting
from benchmarks.processes.talker import World, sit
from benchmarks.startup import cpu
from benchmarks.timing import Finding, percentile, seconds
from clew.cli.conversation import LocalTranscripts
from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.core.session import NewSession, Session
from clew.ports import Store
from clew.terminal.asker import LineAsker
from clew.terminal.lines import Lines
from clew.terminal.plain_output import TextOutput
from clew.terminal.screen.app import ChatApp, Start
from clew.terminal.screen.history import History
from clew.terminal.startup import Startup
from clew.wiring import LocalTerminal

OPENS = 1.5
CORE = 0.5
ECHO = 0.050
READY = 3.0
ROUNDS = 9
TOKENS = 5_000
RATE = 100
"""Tokens in a second."""
PATIENCE = 120.0
BETWEEN = 0.17
"""Seconds between two keys of somebody who types."""
LETTERS = "".join(chr(code) for code in range(0x400, 0x460))
"""Letters that the answer has none of: where one is drawn, it is the echo of a key."""

_CLEW = [sys.executable, "-c", "from clew.cli import main; main()"]
_WORDS = (
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "`code`",
    "and",
    "**bold**",
    "words",
    "in",
)
_BREAKS = (
    "\n\n",
    "\n\n## Heading\n\n",
    "\n\n- item\n- item two\n\n",
    "\n\n```python\ndef f(x):\n    return x + 1\n```\n\n",
    "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n",
)


async def screen(setting: Setting) -> list[Finding]:
    """What a chat on a whole screen costs."""
    rounds = 3 if setting.quick else ROUNDS
    compileall.compile_dir(str(Path(clew.__file__).parent), quiet=2)
    findings = [await _opening(setting.folder(), rounds)]
    tokens = TOKENS // 10 if setting.quick else TOKENS
    findings += await asyncio.to_thread(_streaming, setting.folder(), tokens)
    return [*findings, await asyncio.to_thread(_starting, setting.folder(), rounds)]


# --- opening ------------------------------------------------------------------------------------


async def _opening(folder: Path, rounds: int) -> Finding:
    world = World(folder)
    world.make()
    spent: dict[int, list[float]] = {100: [], 10_000: []}
    async with sit(world, lambda *_: None) as parts:
        sessions = {count: await _fill(parts.store, world, count) for count in spent}
        opening = await parts.seat.switch(None, "startup")
        nobody = History(folder / "history")
        seat, transcripts = (
            parts.seat,
            LocalTranscripts(LocalTerminal(parts.seat.client, parts.house)),
        )
        startup = Startup(
            seat, LineAsker(seat, Lines(), TextOutput(lambda text, _: text)), transcripts
        )
        app = ChatApp(seat, startup, Start(opening=opening), nobody)
        async with app.run_test(size=(100, 40)) as pilot:
            await asyncio.wait_for(app.is_there.wait(), PATIENCE)
            for _ in range(rounds + 1):
                for count, session in sessions.items():
                    gc.collect()
                    began = time.process_time()
                    await app.conversation.open(session)
                    await pilot.pause()
                    spent[count].append(time.process_time() - began)
        await app.close_chat()
    short, long = (min(each[1:]) for each in spent.values())
    return Finding(
        topic="screen",
        what="switching to a session of 10,000 messages",
        floor=f"of 100 {seconds(short)}",
        clew=seconds(long),
        compared=f"{long / short:.2f}x",
        bar=f"{OPENS}x",
        ok=long / short <= OPENS,
    )


async def _fill(store: Store, world: World, count: int) -> Session:
    where = str(world.marks.parent)
    new = NewSession(key=f"cli:{count}", title=f"Of {count}", cwd=where, project=where)
    session = await store.create_session(new)
    lease = await store.acquire_lease(session.id, "benchmark")
    answer = "".join(_tokens(80))
    changes = [
        AddMessage(Draft(role="assistant", content=answer))
        if number % 2
        else AddMessage(Draft(role="user", content=f"Question {number}"))
        for number in range(count)
    ]
    for start in range(0, count, 500):
        await store.record(session.id, lease.epoch, *changes[start : start + 500])
    await store.release_lease(lease)
    return await store.get_session(session.id)


# --- a chat in a terminal -----------------------------------------------------------------------


class Chat:
    """`clew` in a terminal of 100 columns."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 100))
        known = {name: each for name, each in os.environ.items() if not name.endswith("_API_KEY")}
        self.process = subprocess.Popen(
            _CLEW,
            env=known | {"CLEW_HOME": str(home), "TERM": "xterm-256color"},
            cwd=folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._tail = b""
        self.seen: set[str] = set()
        """Words in capitals with a number, such as `END-1`, that have been drawn."""

    def _read(self) -> None:
        self._tail = self._tail[-100:] + os.read(self._master, 65_536)
        self.seen.update(each.decode() for each in re.findall(rb"[A-Z]{3,}-\d", self._tail))

    def wait_for(self, text: str, limit: float = PATIENCE) -> float:
        """Read until this is drawn, from now on; the seconds until then."""
        began, sought = time.monotonic(), text.encode()
        self._tail = b""
        while sought not in self._tail:
            left = began + limit - time.monotonic()
            ready, _, _ = select.select([self._master], [], [], max(0, left))
            if not ready:
                raise SystemExit(f"{text!r} was not drawn")
            self._read()
        return time.monotonic() - began

    def drain(self, pause: float) -> None:
        """Read what comes in so many seconds."""
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._master], [], [], left)
            if ready:
                self._read()

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    @property
    def cpu(self) -> float:
        """The seconds of CPU that it has taken so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def waited(self) -> float:
        """The seconds for which its main thread could have run, and had no core."""
        with contextlib.suppress(OSError):
            return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1]) / 1e9
        return 0.0  # this system does not tell

    def kill(self) -> float:
        """End it, wherever it is; the seconds of CPU that it took."""
        self.process.kill()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        os.close(self._master)
        return usage.ru_utime + usage.ru_stime


def _tokens(count: int) -> list[str]:
    chosen = random.Random(54)
    pieces = []
    for number in range(count):
        pieces.append(f"{chosen.choice(_WORDS)} ")
        if number % 60 == 59:
            pieces[-1] += chosen.choice(_BREAKS)
    return pieces


def _furnish(folder: Path, answers: list[object]) -> Path:
    home = folder / "home"
    home.mkdir()
    script = home / "script.json"
    script.write_text(json.dumps({"answers": answers, "title": "A title"}), encoding="utf-8")
    (home / "config.toml").write_text(
        'model = "script/x"\n[providers.script]\nkind = "python"\n'
        f'factory = "clew.testing.scripted:open_model"\nbase_url = {json.dumps(str(script))}\n'
    )
    return home


# --- streaming ----------------------------------------------------------------------------------


class Echo(NamedTuple):
    """How long a key took to be seen, and how much of it others on the machine did not cause."""

    wall: float
    own: float


def _streaming(folder: Path, tokens: int) -> list[Finding]:
    """Two long answers: while the first comes one reads, while the second comes one types."""
    text = "".join(_tokens(tokens))
    size = len(text) // tokens + 1
    answers: list[object] = [
        {"text": f"BEGIN-{number} {text}\n\nEND-{number}", "chunk": size, "delay": 1 / RATE}
        for number in (1, 2)
    ]
    chat = Chat(_furnish(folder, ["Hello.", *answers]), folder)
    chat.wait_for("Write a message")
    chat.type("hello\r")  # all libraries are loaded for it
    chat.wait_for("Hello.")
    alone, lasted, _ = _stream(chat, 1, types=False)
    _, _, echoes = _stream(chat, 2, types=True)
    chat.kill()
    chunks = len(text) / size
    share = alone / chunks * RATE  # as if the script had kept its pace
    slowest, own = max(each.wall for each in echoes), max(each.own for each in echoes)
    walls = [each.wall for each in echoes]
    spread = f"p50 {seconds(percentile(walls, 0.5))}, p95 {seconds(percentile(walls, 0.95))}"
    return [
        Finding(
            topic="screen",
            what=f"an answer of {tokens:,} tokens, {RATE} a second",
            clew=f"{share:.0%} of a core",
            compared=f"{chunks / lasted:.0f} a second came",
            bar=f"{CORE:.0%}",
            ok=share <= CORE,
        ),
        Finding(
            topic="screen",
            what=f"echo of a key meanwhile, {len(echoes)} keys",
            clew=f"wall {spread}",
            compared=f"slowest {seconds(slowest)}, {seconds(own)} with a core",
            bar=f"{seconds(ECHO)} with a core",
            ok=own <= ECHO,
        ),
    ]


def _stream(chat: Chat, number: int, *, types: bool) -> tuple[float, float, list[Echo]]:
    """An answer from its first word to its last: CPU, wall, and how long each key took."""
    chat.type("go on\r")
    chat.wait_for(f"BEGIN-{number}")
    spent, began = chat.cpu, time.monotonic()
    echoes: list[Echo] = []
    while f"END-{number}" not in chat.seen:
        chat.drain(BETWEEN)
        if types:
            if echoes and len(echoes) % len(LETTERS) == 0:
                chat.type("\x15")  # Ctrl+U, so that each letter is new again
                chat.drain(BETWEEN)
            letter = LETTERS[len(echoes) % len(LETTERS)]
            waited = chat.waited
            chat.type(letter)
            echo = chat.wait_for(letter)
            echoes.append(Echo(echo, max(0.0, echo - (chat.waited - waited))))
        if time.monotonic() - began > 10 * PATIENCE:
            raise SystemExit("The answer does not end.")
    return chat.cpu - spent, time.monotonic() - began, echoes


# --- starting -----------------------------------------------------------------------------------


def _starting(folder: Path, rounds: int) -> Finding:
    """`clew` until one can type, beside `clew list`."""
    home = _furnish(folder, ["Hello."])
    environment = {**os.environ, "CLEW_HOME": str(home)}
    floor: list[float] = []
    ours: list[float] = []
    for _ in range(rounds):
        floor.append(cpu([*_CLEW, "list"], environment))
        chat = Chat(home, folder)
        chat.wait_for("Write a message")
        ours.append(chat.kill())
    ratio = statistics.median(ours) / statistics.median(floor)
    return Finding(
        topic="screen",
        what="clew, ready for typing",
        floor=f"clew list {seconds(statistics.median(floor))}",
        clew=seconds(statistics.median(ours)),
        compared=f"{ratio:.2f}x",
        bar=f"{READY}x",
        ok=ratio <= READY,
    )
