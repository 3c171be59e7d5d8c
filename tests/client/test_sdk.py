"""The SDK has a typed method for every operation, and every parameter of it can be given there."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints

import msgspec
import pytest

from clew.api.chat import SendChat, Upload
from clew.api.frames import StreamFrame
from clew.api.operation import Operation, P, Params, R
from clew.api.records import PutMessage
from clew.api.seats import TerminalBreadcrumb, TerminalPlace, Wanted
from clew.api.table import OPERATIONS
from clew.api.transport import Live
from clew.client import client as client_module
from clew.client import sessions
from clew.client.client import Client
from clew.core.changes import AddCompaction, AddMessage
from clew.core.message import Draft, Earlier
from clew.core.models import PersonalityEdit
from clew.core.session import SessionChange, SessionMarks
from clew.errors import InvalidInput
from clew.runtime.lane.lease import hold
from clew.store import open_store
from tests.client.conftest import Place

NAMED = [pytest.param(each, id=each.name) for each in OPERATIONS]
NOT_NOUNS = {"call", "close", "do", "live"}
ID = "3f0c6f1e-9a4b-4c7d-8e21-5b6a7c8d9e0f"
SAMPLES: dict[Any, Any] = {
    str: ID,
    int: 11,
    bytes: b"x",
    bool: True,
    TerminalPlace: TerminalPlace(
        cwd="/a/b", project="/a", basename="a", device=1, inode=2, born=3, scope="git"
    ),
    Wanted: Wanted(title="a"),
    TerminalBreadcrumb: TerminalBreadcrumb(cwd="/a", session=ID, fresh=True, at=4),
    SessionChange: SessionChange(ID, SessionMarks(pinned=False), SessionMarks(pinned=True)),
    PersonalityEdit: PersonalityEdit(soul="x"),
    Upload: Upload(media_type="image/png", data=b"x"),
    Earlier: Earlier("user", "x"),
    PutMessage: PutMessage(role="user", content="x"),
}
SPELLED: dict[str, Any] = {"blob_hash": "0" * 64, "program": "mine", "media_type": "image/png"}
"""Parameters of which not every text is valid."""
GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "sdk.md").read_text("utf-8")
SET_BY_THE_TRANSPORT = {"chat.send": {"stream"}}


class Recorded(Exception):
    """An operation was asked for."""

    def __init__(self, operation: Operation[Any, Any], params: Params) -> None:
        self.operation = operation
        self.params = params


class RecordingTransport:
    """A `Transport` that goes nowhere, and says what was asked of it."""

    async def call(self, operation: Operation[P, R], params: P) -> R:
        raise Recorded(operation, params)

    def stream(self, params: SendChat) -> AsyncGenerator[StreamFrame]:
        raise NotImplementedError

    def live(self) -> AbstractAsyncContextManager[Live]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def list_methods(client: Client) -> Iterator[Callable[..., Any]]:
    """Every public method of the client and of its nouns."""
    for name in vars(Client):
        if name.startswith("_") or name in NOT_NOUNS:
            continue
        found = getattr(client, name)
        if not isinstance(vars(Client)[name], cached_property):
            yield found
            continue
        for each in vars(type(found)):
            if not each.startswith("_"):
                yield getattr(found, each)


def sample(kind: Any, default: Any) -> Any:
    """A value of this type that is not the default."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is Literal:
        return next(each for each in get_args(kind) if each != default)
    if get_origin(kind) is tuple:
        return (sample(get_args(kind)[0], None),)
    if kind is bool:
        return not default
    if get_origin(kind) is Iterable:
        return [sample(get_args(kind)[0], None)]
    return SAMPLES[kind]


@cache
def list_lazy_names() -> dict[str, Any]:
    """The names that `client.client` imports for a type checker only."""
    tree = ast.parse(inspect.getsource(client_module))
    lazy = next(each for each in tree.body if isinstance(each, ast.If))
    return {
        name.name: getattr(import_module(each.module or ""), name.name)
        for each in lazy.body
        if isinstance(each, ast.ImportFrom)
        for name in each.names
    }


async def record(method: Callable[..., Any]) -> Recorded:
    """What a method asks for if it is given everything that it takes."""
    hints = get_type_hints(method, localns=list_lazy_names())
    given = {
        name: SPELLED.get(name)
        or sample(hints[name], None if each.default is each.empty else each.default)
        for name, each in inspect.signature(method).parameters.items()
        if each.kind is not each.VAR_KEYWORD
    }
    for (unpacked,) in (get_args(each) for each in hints.values() if get_origin(each) is Unpack):
        given |= {name: sample(each, None) for name, each in get_type_hints(unpacked).items()}
    asked = method(**given)
    try:
        await (anext(asked) if isinstance(asked, AsyncIterator) else asked)
    except Recorded as recorded:
        return recorded
    raise AssertionError(f"{method} asks for nothing")


async def record_all() -> dict[str, set[str]]:
    """The operations that the SDK's methods ask for, and the parameters that can be given."""
    found: dict[str, set[str]] = {}
    for method in list_methods(Client(transport=RecordingTransport())):
        recorded = await record(method)
        fields = found.setdefault(recorded.operation.name, set())
        for each in msgspec.structs.fields(recorded.operation.takes):
            if each.required or getattr(recorded.params, each.name) != each.default:
                fields.add(each.name)
    return found


@pytest.fixture
async def methods() -> dict[str, set[str]]:
    return await record_all()


@pytest.mark.parametrize("operation", NAMED)
async def test_every_operation_has_a_method_that_takes_all_its_parameters(
    methods: dict[str, set[str]], operation: Operation[Any, Any]
) -> None:
    assert operation.name in methods, f"no method of the SDK calls {operation.name}"
    wanted = set(operation.takes.__struct_fields__) - SET_BY_THE_TRANSPORT.get(
        operation.name, set()
    )
    assert wanted <= methods[operation.name]


def test_the_guide_names_every_method() -> None:
    client = Client(transport=RecordingTransport())
    for noun, found in vars(Client).items():
        if noun.startswith("_") or noun in NOT_NOUNS:
            continue
        if not isinstance(found, cached_property):
            assert f"`client.{noun}()`" in GUIDE
            continue
        row = re.search(rf"^\| `client\.{noun}` \|(.*)$", GUIDE, re.MULTILINE)
        assert row is not None, f"docs/guides/sdk.md has no row for client.{noun}"
        named = set(re.findall(r"`(\w+)`", row[1]))
        methods = {each for each in vars(type(getattr(client, noun))) if not each.startswith("_")}
        assert named == {each for each in methods if not each.startswith("iter_")}


async def test_no_method_calls_what_is_not_in_the_table(methods: dict[str, set[str]]) -> None:
    assert set(methods) == {each.name for each in OPERATIONS}


# --- pages as iterators -----------------------------------------------------------------------


async def test_the_iterators_walk_through_all_pages(
    place: Place, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in ("SESSION_PAGE", "NAME_PAGE", "MESSAGE_PAGE"):
        monkeypatch.setattr(sessions, size, 2)
    talked = [
        await place.talked(client, f"words {number}", key=f"a:{number}") for number in range(5)
    ]
    newest_first = talked[::-1]
    assert [each.id async for each in client.sessions.iter_list()] == newest_first
    assert [each.id async for each in client.sessions.iter_names()] == newest_first
    hits = [each async for each in client.sessions.iter_search("words", per_session=True)]
    assert sorted(each.session_id for each in hits) == sorted(talked)


async def test_messages_are_iterated_in_order(
    place: Place, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MESSAGE_PAGE", 2)
    session = await place.talked(client, "one", "two", "three")
    await client.commands.run("/undo", session=session)
    all_of_it = [each async for each in client.sessions.iter_messages(session, undone=True)]
    assert [each.seq for each in all_of_it] == [1, 2, 3, 4, 5, 6]
    rest = [each.seq async for each in client.sessions.iter_messages(session, after=1)]
    assert rest == [2, 3, 4]


async def test_an_empty_session_has_no_messages_to_iterate_over(
    place: Place, client: Client
) -> None:
    session = await place.session()
    assert [each async for each in client.sessions.iter_messages(session.id)] == []


# --- methods that had none --------------------------------------------------------------------


async def test_states_todos_and_what_may_be_meant(place: Place, client: Client) -> None:
    session = await place.session(title="Threads")
    assert await client.sessions.states([]) == {}
    states = await client.sessions.states([session.id, ID])
    assert list(states) == [session.id]
    assert await client.sessions.todos(session.id) == ()
    assert [each.id for each in await client.sessions.find("Threads")] == [session.id]


async def test_a_lineage_names_what_a_session_comes_from_and_leads_to(
    place: Place, client: Client
) -> None:
    before = await place.session(title="Before")
    session = await place.session("cli:b", title="Threads", previous_id=before.id)
    async with hold(place.store, session.id, "test") as lease:
        said = [AddMessage(Draft(role="user", content=each)) for each in ("one", "two", "three")]
        summary = AddCompaction(compaction_id="c1", keep_from=3, summary="*one* and two")
        await place.store.record(session.id, lease.epoch, *said, summary)
    fork = await client.sessions.fork(session.id, at=2)

    lineage = await client.sessions.lineage(session.id, render="html")
    assert lineage.previous is not None
    assert lineage.previous.name == "Before"
    assert [(each.id, each.name, each.at) for each in lineage.forks] == [
        (fork.id, "Threads (fork)", 2)
    ]
    (made,) = lineage.compactions
    assert (made.keep_from, made.summary) == (3, "*one* and two")
    assert "<em>one</em>" in (made.html or "")
    parent = (await client.sessions.lineage(fork.id)).parent
    assert parent is not None
    assert (parent.id, parent.at) == (session.id, 2)
    # A guest's own sessions may come from the owner's: those stay unnamed.
    theirs = await place.session("cli:g", person="guest", previous_id=before.id)
    seen = await (await place.client("guest")).sessions.lineage(theirs.id)
    assert seen.previous is None


async def test_commands_are_listed_for_who_asks(place: Place, client: Client) -> None:
    mine = {each.name: each for each in await client.commands.list()}
    assert mine["model"].usage == "[NAME]"
    assert "exit" not in mine  # for a terminal
    theirs = {each.name for each in await (await place.client("guest")).commands.list()}
    assert "stop" in theirs
    assert "model" not in theirs


async def test_names_of_some_sessions_come_in_their_order_archived_ones_too(
    place: Place, client: Client
) -> None:
    one, two = await place.session(title="One"), await place.session("cli:b", title="Two")
    gone = await place.session("cli:c", title="Gone")
    await client.sessions.update(two.id, archived=True)
    await client.sessions.delete(gone.id)
    page = await client.sessions.names([two.id, gone.id, one.id, ID])
    assert [(each.title, each.archived) for each in page.names] == [("Two", True), ("One", False)]
    assert (await client.sessions.names([])).names == ()
    assert (await (await place.client("guest")).sessions.names([one.id])).names == ()
    with pytest.raises(InvalidInput, match="leave out the other parameters"):
        await client.sessions.names([one.id], platform="cli")


async def test_a_state_says_whether_another_process_has_the_session_open(
    place: Place, client: Client, tmp_path: Path
) -> None:
    mine, theirs = await place.session(), await place.session("cli:b")
    await place.store.attach(mine.id)
    async with await open_store(f"sqlite://{tmp_path}/store/sessions.db") as other:
        await other.attach(theirs.id)
        states = await client.sessions.states([mine.id, theirs.id])
    assert states[mine.id].attachment is not None
    assert (states[mine.id].elsewhere, states[theirs.id].elsewhere) == (False, True)


async def test_models_commands_and_one_message_of_the_queue(place: Place, client: Client) -> None:
    listed = await client.models.list()
    assert listed.current in listed.models
    session = await place.session(title="Threads")
    reply = await client.commands.run("/status", session=session.id)
    assert "Threads" in reply.text
    assert await client.queue.drop(session.id, "no-such-row") == ()
