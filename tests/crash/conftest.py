"""A scratch home with a scripted model, and the real command line in it: piped, or in a terminal.

Every wait is bounded, and nothing sleeps to let something happen.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import click
import pytest

from clew.core.changes import AddMessage, EndTurn, StartTurn
from clew.core.message import Draft, Message
from clew.core.session import NewSession, Session
from clew.core.turn import Turn
from clew.ports import Store
from clew.store import open_store
from tests.forks import Forked, start_clew
from tests.patience import PATIENCE
from tests.stores import lay_store

T = TypeVar("T")


class Home:
    """clew's home, a directory to work in, and everything that was started there."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "home"
        self.work = folder / "work"
        self.path.mkdir(parents=True)
        self.work.mkdir()
        self._script = folder / "script.json"
        self._started: list[Process] = []
        self.answer(rules=[], answers=["Fine."])

    def answer(self, *, allow: list[str] | None = None, **script: Any) -> None:
        """What the model says; see `clew.testing.scripted`."""
        self._script.write_text(json.dumps({"title": "Tried", "answers": ["Fine."]} | script))
        (self.path / "config.toml").write_text(
            f'model = "script/x"\n[tools]\nallow = {json.dumps(allow or [])}\n'
            '[providers.script]\nkind = "python"\nfactory = "clew.testing.scripted:open_model"\n'
            f"base_url = {json.dumps(str(self._script))}\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("CLEW_")}
        python_path = str(Path(__file__).parents[2])
        return kept | {
            "CLEW_HOME": str(self.path),
            "TERM": "xterm",
            "NO_COLOR": "1",
            "PYTHONPATH": python_path,
        }

    def start(self, *args: str, program: str | None = None) -> Process:
        """Run clew, or another program, without a terminal; its output comes through one pipe."""
        process = Process(self, args, program)
        self._started.append(process)
        return process

    def open(self, *args: str) -> Terminal:
        """Run clew in a terminal."""
        terminal = Terminal(self, args)
        self._started.append(terminal)
        return terminal

    def run(self, *args: str, stdin: str = "") -> tuple[int, str]:
        """Run clew to its end: the exit code, and all that it wrote."""
        process = self.start(*args)
        process.type(stdin)
        process.end_input()
        return process.finish(), process.output

    def clean(self) -> None:
        """Nothing that was started here stays."""
        for process in self._started:
            process.kill()

    # --- the store ------------------------------------------------------------------------------

    @property
    def file(self) -> Path:
        return self.path / "sessions.db"

    def store(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Do something with the store itself."""
        lay_store(self.file)

        async def run() -> T:
            async with await open_store(str(self.file)) as store:
                return await work(store)

        return asyncio.run(run())

    def add(self, *texts: str) -> Session:
        """The work directory's session, in which these were said, a turn each."""

        async def make(store: Store) -> Session:
            key = f"cli:{self.work.name}"
            session = await store.create_session(
                NewSession(key=key, platform="cli", cwd=str(self.work), project=str(self.work)),
                route=key,
            )
            lease = await store.acquire_lease(session.id, "test")
            for number, each in enumerate(texts):
                turn = f"seeded{number}"
                await store.record(
                    session.id,
                    lease.epoch,
                    StartTurn(turn_id=turn),
                    AddMessage(Draft(role="user", content=each), turn),
                    AddMessage(Draft(role="assistant", content=f"About {each}."), turn),
                    EndTurn(turn_id=turn, status="done"),
                )
            await store.release_lease(lease)
            return await store.get_session(session.id)

        return self.store(make)

    def session(self, key: str | None = None) -> Session:
        """The session that a key leads to."""

        async def find(store: Store) -> Session | None:
            return await store.find_route(key or f"cli:{self.work.name}")

        found = self.store(find)
        assert found is not None
        return found

    def thread(self, session: Session) -> tuple[Message, ...]:
        return self.store(lambda store: store.get_messages(session.id))

    def turns(self, session: Session) -> tuple[Turn, ...]:
        return self.store(lambda store: store.list_turns(session.id))


class Process:
    """A command line that runs."""

    def __init__(self, home: Home, args: Sequence[str], program: str | None = None) -> None:
        self.output = ""
        self._reader, writer = os.pipe()
        read, self._writer = os.pipe()
        env, cwd = home.environment, home.work
        self._process: subprocess.Popen[bytes] | Forked
        if program is None:
            self._process = start_clew(args, env=env, cwd=cwd, streams=(read, writer, writer))
        else:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, *args],
                env=env,
                cwd=cwd,
                stdin=read,
                stdout=writer,
                stderr=writer,
                start_new_session=True,
            )
        os.close(writer)
        os.close(read)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, text: str, *, count: int = 1) -> None:
        """Read until the text has been written so many times."""
        self.wait_until(lambda: self.output.count(text) >= count, text)

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Read until something is so."""
        limit = time.monotonic() + PATIENCE
        while not ready():
            left = limit - time.monotonic()
            assert left > 0, f"{what!r} did not come; there is: {self.output}"
            if not self._read(min(left, 0.1)) and not ready():
                pytest.fail(f"{what!r} did not come before the end: {self.output}")

    def type(self, keys: str) -> None:
        os.write(self._writer, keys.encode())

    def end_input(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def pause(self, file: Path) -> None:
        """Stop it between two writes to a store; in the middle of one it would keep others out."""
        limit = time.monotonic() + PATIENCE
        while True:
            self.signal(signal.SIGSTOP)
            while state_of(self.pid) != "T":
                assert time.monotonic() < limit, "it does not stop"
            if can_be_written(file):
                return
            assert time.monotonic() < limit, "it always writes"
            self.signal(signal.SIGCONT)

    def finish(self) -> int:
        """Read to the end; the exit code."""
        limit = time.monotonic() + PATIENCE
        while self._read(0.2):
            assert time.monotonic() < limit, f"it does not end: {self.output}"
        code = self._process.wait(PATIENCE)
        self._close()
        return code

    def kill(self) -> None:
        """End it and everything that it started."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait(PATIENCE)
        self._close()

    def _close(self) -> None:
        self.end_input()
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1

    def _read(self, seconds: float) -> bool:
        """Take what there is within this time; False at the end of it all."""
        if not select.select([self._reader], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._reader, 65_536)
        except OSError:  # the other side of the terminal is gone
            return False
        self.output += click.unstyle(data.decode(errors="replace").replace("\r\n", "\n"))
        return bool(data)


AGAIN: Final = "Ctrl+C again, or Ctrl+D, leaves."


class Terminal(Process):
    """A command line in a pseudo-terminal."""

    def __init__(self, home: Home, args: Sequence[str]) -> None:
        self.output = ""
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 100))
        self._reader = self._writer = master
        streams = (slave, slave, slave)
        env, cwd = home.environment, home.work
        self._process = start_clew(args, env=env, cwd=cwd, streams=streams, terminal=True)
        os.close(slave)

    def say(self, text: str) -> None:
        """Type a line at the prompt."""
        self.wait_until(lambda: self.output.endswith("> "), "a prompt")
        self.type(f"{text}\n")
        self.wait_for(text)

    def leave_by_ctrl_c(self) -> int:
        """Ctrl+C twice within two seconds; again where the machine was too busy for that."""
        said = self.output.count(AGAIN)
        limit = time.monotonic() + PATIENCE
        self.type("\x03")
        while self._read(0.2):
            assert time.monotonic() < limit, f"it does not end: {self.output}"
            if self.output.count(AGAIN) > said:
                said += 1
                self.type("\x03")
        return self.finish()

    def close(self) -> int:
        """Close the window; the exit code."""
        os.close(self._reader)
        self._reader = self._writer = -1
        return self._process.wait(PATIENCE)

    def end_input(self) -> None:
        """A terminal has no end but its own."""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.clean()


def can_be_written(file: Path) -> bool:
    """Whether no other connection is in the middle of a write."""
    with closing(apsw.Connection(str(file))) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return False
    return True


def is_there(pid: int) -> bool:
    """Whether a process runs; a dead one that nobody has fetched does not."""
    try:
        return state_of(pid) != "Z"
    except FileNotFoundError:
        return False


def state_of(pid: int) -> str:
    """One letter, as in the list of processes: T for one that is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
