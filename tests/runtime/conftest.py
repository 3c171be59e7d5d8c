"""A real store, a real runtime, and an actor in the agent's place who plays scenes.

An actor stands where the model's side begins (`ports.Agent`): a test says what it does in each
turn, to the step. A second handle on the same file is what another process is for the store.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from clew import config as configuration
from clew.agent.models.catalogue import Catalogue
from clew.agent.personalities import FilePersonalities
from clew.agent.system_prompt import ContextParts, SystemPrompt
from clew.agent.tools import Tools
from clew.client.seats import locate
from clew.clock import host_clock
from clew.core.changes import AddMessage
from clew.core.channels.incoming import Incoming, message_for
from clew.core.commands import Issuer
from clew.core.delivery import NewInbound
from clew.core.keys import Place, cli_key
from clew.core.live_events import Committed, Event, TextDelta
from clew.core.message import Draft, Message, ToolCall
from clew.core.names import Title
from clew.core.session import NewSession, Session
from clew.core.turn import Turn
from clew.core.usage import Usage
from clew.memory import MarkdownMemory
from clew.memory.recall import FileRecall
from clew.ports import LiveTurn, Store
from clew.runtime.commands import run_command
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.hooks import Hooks
from clew.runtime.inbound.reception import Ticket
from clew.runtime.place.begin import Surface, begin
from clew.runtime.place.switch import Reason, Switch, Switched, switch
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.wiring import open_catalogue
from tests.patience import PATIENCE
from tests.stores import lay_store

T = TypeVar("T")
Scene = Callable[[LiveTurn], Awaitable[None]]


CONFIG = """
model = "script/one"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
models = ["one", "two"]
[providers.closed]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
models = ["away"]
api_key = "env:CLEW_TEST_NOT_SET"
"""


class Actor:
    """`ports.Agent`: plays the next scene in each turn; without one it says "ok"."""

    def __init__(self, *scenes: Scene) -> None:
        self.scenes = list(scenes)
        self.turns: list[LiveTurn] = []
        self.title: str | Exception | None = None
        self.title_usage = Usage()
        self.titles_asked = 0
        self.title_asked, self.title_made = asyncio.Event(), asyncio.Event()
        self.title_may_come = asyncio.Event()
        self.title_may_come.set()

    async def warm(self, model: str | None = None) -> None:
        """There is nothing to load."""

    async def run(self, turn: LiveTurn) -> None:
        self.turns.append(turn)
        scene = self.scenes.pop(0) if self.scenes else saying("ok")
        await scene(turn)

    async def make_title(self, model: str | None, thread: Sequence[Message]) -> Title:
        self.titles_asked += 1
        self.title_asked.set()
        await self.title_may_come.wait()
        self.title_made.set()
        if isinstance(self.title, Exception):
            raise self.title
        return Title(self.title, self.title_usage)


def saying(text: str) -> Scene:
    """Answer with this, and be done."""

    async def scene(turn: LiveTurn) -> None:
        turn.signal(TextDelta(text))
        await turn.finish(added(turn, text))

    return scene


def using_a_tool(text: str = "done") -> Scene:
    """Call a tool, get its result, and answer: four messages with the user's."""

    async def scene(turn: LiveTurn) -> None:
        call = ToolCall(id="call_1", name="look")
        asked = Draft(role="assistant", tool_calls=(call,))
        result = Draft(role="tool", content="seen", tool_call_id="call_1", tool_name="look")
        await turn.record(AddMessage(asked, turn.id, from_person=False))
        await turn.record(AddMessage(result, turn.id, from_person=False))
        await turn.finish(added(turn, text))

    return scene


def failing(error: BaseException, partial: str = "") -> Scene:
    """Say something, then fail."""

    async def scene(turn: LiveTurn) -> None:
        if partial:
            turn.signal(TextDelta(partial))
        raise error

    return scene


class Held:
    """A scene that says something and then waits until it may go on."""

    def __init__(self, text: str = "ok") -> None:
        self.text = text
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.stopped = False

    async def __call__(self, turn: LiveTurn) -> None:
        turn.signal(TextDelta("so far"))
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.stopped = True
            raise
        await saying(self.text)(turn)


def added(turn: LiveTurn, text: str) -> AddMessage:
    return AddMessage(Draft(role="assistant", content=text), turn.id, from_person=False)


async def soon(work: Awaitable[T]) -> T:
    """Wait for something, but not for ever."""
    return await asyncio.wait_for(work, PATIENCE)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again; for what no event of ours can tell."""
    async with asyncio.timeout(PATIENCE):
        while not await is_so():  # noqa: ASYNC110  # another process can set no event of ours
            await asyncio.sleep(0.01)


async def ended(ticket: Ticket) -> Turn:
    """The turn of an accepted message. The future itself is never cancelled by waiting."""
    return await soon(asyncio.shield(ticket.turn))


def typed(session: Session, text: str, *, channel: str = "cli", **fields: Any) -> Incoming:
    """A message for a session, as a terminal says it."""
    return message_for(session, text, channel=channel, **fields)


def inbound(session: Session, text: str, **fields: Any) -> NewInbound:
    """The same as it stands in the inbox."""
    given: dict[str, Any] = {
        "id": secrets.token_hex(8),
        "channel": "cli",
        "key": session.key,
        "session_id": session.id,
        "payload": {"text": text},
    }
    return NewInbound(**(given | fields))


def outline(thread: Sequence[Message]) -> list[str]:
    return [f"{row.role}: {row.content}" for row in thread]


async def read(store: Store, session: Session | None) -> list[str]:
    assert session is not None
    return outline(await store.get_messages(session.id))


async def collect(events: AsyncIterator[Event], is_last: Callable[[Event], bool]) -> list[Event]:
    """The events up to the one that is waited for."""
    found: list[Event] = []
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            found.append(event)
            if is_last(event):
                break
    return found


def messages(events: Sequence[Event]) -> list[str]:
    return outline([each.message for each in events if isinstance(each, Committed)])


# --- parts ------------------------------------------------------------------------------------


@pytest.fixture
def url(tmp_path: Path) -> str:
    lay_store(tmp_path / "store" / "sessions.db")
    return f"sqlite://{tmp_path}/store/sessions.db"


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    async with await open_store(url, durability="normal") as opened:
        yield opened


@pytest.fixture
async def other(url: str, store: Store) -> AsyncIterator[Store]:
    """Another process, as far as the store can see."""
    async with await open_store(url, durability="normal") as opened:
        yield opened


@pytest.fixture
def actor() -> Actor:
    return Actor()


@pytest.fixture
async def session(store: Store) -> Session:
    return await store.create_session(NewSession(key="cli:test"))


class Rules:
    """Where an answer of "always" goes."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    async def __call__(self, rule: str) -> None:
        self.kept.append(rule)


@pytest.fixture
def rules() -> Rules:
    return Rules()


Runtimes = Callable[..., Runtime]


@pytest.fixture
async def make_runtime(rules: Rules) -> AsyncIterator[Runtimes]:
    """Runtimes that are closed at the end, before their stores."""
    made: list[Runtime] = []

    def make(
        store: Store, actor: Actor, *, hooks: dict[str, list[str]] | None = None, **more: Any
    ) -> Runtime:
        given: dict[str, Any] = {"clock": host_clock, "remember_rule": rules} | more
        made.append(Runtime(store, actor, hooks=Hooks(hooks or {}, clock=given["clock"]), **given))
        return made[-1]

    yield make
    for runtime in made:
        await soon(runtime.close())


@pytest.fixture
def runtime(store: Store, actor: Actor, make_runtime: Runtimes) -> Runtime:
    return make_runtime(store, actor)


# --- a seat -----------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> configuration.Config:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG, encoding="utf-8")
    return configuration.load(home=str(home), environ={})


@pytest.fixture
def models(config: configuration.Config) -> Catalogue:
    return open_catalogue(config)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


class Seat(Desk, kw_only=True):
    """A surface at a session, as a test keeps it: what commands work with, and a way to go."""

    async def begin(self) -> Session:
        self.current = await begin(self.at, self.wanted, previous_id=self.previous_id)
        return self.current

    async def stop(self) -> bool:
        return self.current is not None and await self.runtime.stop(self.current.id)

    async def switch(
        self, target: Session | None, reason: Reason, *, read_only: bool = False
    ) -> Switched:
        if target is None:
            return await self.begin_anew()
        wanted = Switch(target=target, reason=reason, previous=self.current, read_only=read_only)
        switched = await switch(self.at, wanted)
        self.current, self.read_only = switched.session, read_only
        self.model_name = switched.replacement
        return switched


def sitting(seat: Seat) -> Session:
    assert seat.current is not None
    return seat.current


def make_seat_of(runtime: Runtime, models: Catalogue, place: Place, home: Path) -> Seat:
    """A seat of the owner, with all that commands ask for."""
    store, memory, personalities = runtime.store, MarkdownMemory(home), FilePersonalities()
    return Seat(
        at=Surface(runtime=runtime, models=models, place=place, key=cli_key(place.basename)),
        personalities=personalities,
        memory=memory,
        recall=FileRecall(memory),
        context=ContextParts(
            catalogue=models,
            personalities=personalities,
            toolbox=Tools(store, memory),
            prompt=SystemPrompt(memory, store, host_clock),
        ),
        zone=UTC,
        issuer=Issuer(role="owner", surface="terminal"),
    )


Seats = Callable[[Runtime], Seat]


@pytest.fixture
def make_seat(models: Catalogue, directory: Path, tmp_path: Path) -> Seats:
    def make(runtime: Runtime) -> Seat:
        return make_seat_of(runtime, models, locate(directory), tmp_path / "home")

    return make


@pytest.fixture
def seat(runtime: Runtime, make_seat: Seats) -> Seat:
    return make_seat(runtime)


Run = Callable[[str], Awaitable[Reply]]


async def run_line(seat: Seat, line: str) -> Reply:
    name, _, rest = line.removeprefix("/").partition(" ")
    return await soon(run_command(seat, name, rest))


@pytest.fixture
def run(seat: Seat) -> Run:
    """Run a command line at the seat."""
    return partial(run_line, seat)
