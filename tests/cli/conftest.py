"""The command line over a real store in a scratch home."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import pytest
from click.testing import CliRunner, Result

from clew.cli import main
from clew.core.changes import AddMessage, EndTurn, StartTurn, UndoTurn
from clew.core.message import Draft
from clew.core.session import NewSession, Session
from clew.ports import Clock, Store
from clew.store import open_store
from tests.stores import lay_store

T = TypeVar("T")

DAY = 86_400_000


class Home:
    """A scratch home: run clew in it, or look at its store."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def clew(self, *args: str, env: dict[str, str] | None = None) -> Result:
        """Run a command line; nobody is at the terminal."""
        environment = {"CLEW_HOME": str(self.path), "NO_COLOR": None} | (env or {})
        return CliRunner().invoke(main, list(args), env=environment, prog_name="clew")

    def script(self, *answers: Any, rules: Sequence[Any] = (), more: str = "", **told: Any) -> None:
        """Let a scripted model answer; `more` is configuration behind the model's."""
        self.path.mkdir(exist_ok=True)
        path = self.path / "script.json"
        path.write_bytes(msgspec.json.encode({"answers": answers, "rules": rules, **told}))
        (self.path / "config.toml").write_text(
            f"""model = "script/x"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{path}"
{more}
""",
            encoding="utf-8",
        )

    def chat(
        self,
        *lines: str,
        args: Sequence[str] = (),
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> Result:
        """Talk through a pipe: every line is answered before the next."""
        with tempfile.TemporaryFile() as file, as_stdin(file), chdir(cwd or Path.cwd()):
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.seek(0)
            return self.clew("chat", *args, env=env)

    def ask(
        self,
        *args: str,
        stdin: bytes = b"",
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> Result:
        """One question, from a script."""
        environment = {"CLEW_HOME": str(self.path), "NO_COLOR": None} | (env or {})
        with chdir(cwd or Path.cwd()):
            return CliRunner().invoke(
                main, ["ask", *args], env=environment, prog_name="clew", input=stdin
            )

    def json(self, *args: str) -> Any:
        """The JSON document that a command prints."""
        result = self.clew(*args, "--json")
        assert result.exit_code == 0, result.output
        return msgspec.json.decode(result.stdout)

    def store(self, work: Callable[[Store], Awaitable[T]], clock: Clock | None = None) -> T:
        """Do something with the store itself."""

        lay_store(self.path / "sessions.db")

        async def run() -> T:
            async with await open_store(str(self.path / "sessions.db"), clock=clock) as store:
                return await work(store)

        return asyncio.run(run())

    def add(self, title: str | None = None, *drafts: Draft | str, **fields: Any) -> Session:
        """A session with some messages; text is what the user said."""

        async def make(store: Store) -> Session:
            key = fields.pop("key", f"cli:{title}")
            session = await store.create_session(NewSession(key=key, title=title, **fields))
            if not drafts:
                return session
            lease = await store.acquire_lease(session.id, "test")
            changes = [
                AddMessage(each if isinstance(each, Draft) else Draft(role="user", content=each))
                for each in drafts
            ]
            await store.record(session.id, lease.epoch, *changes)
            await store.release_lease(lease)
            return await store.get_session(session.id)

        return self.store(make)

    def undo_turn(self, session: Session, text: str) -> None:
        """Let a turn say something, and take it back."""

        async def act(store: Store) -> None:
            lease = await store.acquire_lease(session.id, "test")
            await store.record(
                session.id,
                lease.epoch,
                StartTurn(turn_id="undone"),
                AddMessage(Draft(role="user", content=text), "undone"),
                EndTurn(turn_id="undone", status="done"),
                UndoTurn("undone"),
            )
            await store.release_lease(lease)

        self.store(act)


@contextmanager
def as_stdin(file: IO[bytes]) -> Iterator[None]:
    """Let the process read from this file where it reads from descriptor 0."""
    kept = os.dup(0)
    os.dup2(file.fileno(), 0)
    try:
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")
