from __future__ import annotations

from typing import Any

import pytest

from clew.api import commands as commands_rows
from clew.api import seats as seats_rows
from clew.api.commands import CommandReply, RunCommand
from clew.api.seats import BeginSession, SwitchSeat, TerminalPlace, Wanted
from clew.api.table import OPERATIONS
from clew.client.client import Client
from clew.core.models import Personality
from clew.core.tokens import Scope, covers
from clew.errors import Forbidden, InvalidInput, SessionNotFound
from tests.client.conftest import Place

GUEST = "telegram:5"


async def test_a_guest_sees_only_what_is_theirs(place: Place, client: Client) -> None:
    guest = await place.client(GUEST, "write")
    theirs = await place.talked(guest, "my needle")
    others = await place.talked(client, "the owner's needle")
    assert [each.id for each in (await guest.sessions.list()).sessions] == [theirs]
    assert [each.id for each in (await guest.sessions.list(q="needle")).sessions] == [theirs]
    assert {each.id for each in (await client.sessions.list()).sessions} == {theirs, others}
    assert (await guest.sessions.resolve(theirs)).id == theirs
    with pytest.raises(SessionNotFound):
        await guest.sessions.resolve(others)


async def test_for_a_guest_sessions_of_others_are_not_there(place: Place, client: Client) -> None:
    guest = await place.client(GUEST, "write")
    session = await place.talked(client, "hello")
    calls = guest.sessions
    for attempt in (
        calls.get(session),
        calls.messages(session),
        calls.update(session, title="mine"),
        calls.delete(session),
        calls.restore(session),
        calls.fork(session),
        calls.compact(session),
        calls.stop(session),
        calls.export(session),
        calls.preview(session),
        calls.todos(session),
        guest.queue.list(session),
        guest.queue.drop(session),
        guest.approvals.list(session),
        guest.outbox.list(session),
    ):
        with pytest.raises(SessionNotFound):
            await attempt
    with pytest.raises(SessionNotFound):
        await guest.chat.send("hello", session=session)
    assert (await client.sessions.get(session)).session.title != "mine"


async def test_a_guest_may_not_take_a_key_that_is_somebody_elses_or_nobodys(
    place: Place, client: Client
) -> None:
    guest = await place.client(GUEST, "write")
    await place.talked(client, "hello", key="agent:main:main")
    told = set()
    for key in ("agent:main:main", "agent:main:other"):
        with pytest.raises(Forbidden) as refused:
            await guest.chat.send("hello", key=key)
        told.add(str(refused.value))
    assert len(told) == 1  # which keys there are is not told


async def test_a_command_does_not_give_a_guest_a_key_either(place: Place, client: Client) -> None:
    guest = await place.client(GUEST, "chat")
    owners = await place.talked(client, "hello", key="agent:main:main")
    theirs = await place.talked(guest, "mine")
    for key in ("agent:main:main", "agent:main:other"):
        for session in (None, theirs):
            params = RunCommand(line="/new gotcha", key=key, session=session)
            with pytest.raises(Forbidden, match="under a key"):
                await guest.do(commands_rows.RUN, params)
        assert (await place.store.find_route(key) is None) == (key != "agent:main:main")
    led = await place.store.find_route("agent:main:main")
    assert led is not None
    assert led.id == owners
    assert not (await run(guest, "/new of mine", theirs)).is_error


async def test_a_terminal_needs_the_scope_of_what_it_does_on_the_way(
    place: Place, client: Client
) -> None:
    session = await place.talked(client, "hello")
    here = TerminalPlace(cwd="/home/me/api", project="/home/me/api")
    talker = await place.client(scope="chat")
    for how in ({"forks": True}, {"moves": True}):
        params = SwitchSeat(where=here, key="cli:api", session=session, **how)  # type: ignore[arg-type]
        with pytest.raises(Forbidden, match="scope write"):
            await talker.do(seats_rows.SWITCH, params)
    assert len((await client.sessions.list()).sessions) == 1


async def test_who_may_only_talk_does_not_lead_others_into_another_session(
    place: Place, client: Client
) -> None:
    diary = await place.talked(client, "dear diary", key="agent:main:main")
    key = "agent:main:telegram:dm:5"
    theirs = await place.talked(client, "hello", key=key)
    talker = await place.client(scope="chat")

    await place.talked(talker, f"/resume {diary}", key=key)
    here = TerminalPlace(cwd="/home/me/api", project="/home/me/api")
    for attempt in (
        talker.do(seats_rows.SWITCH, SwitchSeat(where=here, key=key, session=diary)),
        talker.do(seats_rows.BEGIN, BeginSession(where=here, key=key)),
        talker.do(commands_rows.RUN, RunCommand(line="/new", key=key)),
    ):
        with pytest.raises(Forbidden, match="scope write"):
            await attempt

    led = await place.store.find_route(key)
    assert led is not None
    assert led.id == theirs


async def test_what_is_the_owners_alone_is_refused_to_a_guest(place: Place) -> None:
    guest = await place.client(GUEST, "write")
    session = await place.talked(guest, "hello")
    for attempt in (
        guest.memory.get(),
        guest.memory.write(content="mine"),
        guest.memory.history(),
        guest.memory.version(1),
        guest.memory.restore(1),
        guest.memory.render("mine"),
        guest.sessions.prune(dry_run=True),
        guest.usage(),
        guest.approvals.decide("abc", "yes"),
        guest.outbox.retry("abc"),
        guest.outbox.confirm("abc"),
        guest.cron.list(),
        guest.cron.add("news", "@daily", "What is new?"),
        guest.cron.run("news"),
        guest.sessions.update(session, send_policy="allow"),
        guest.sessions.update(session, model="script/two"),
        guest.sessions.update(session, model=None),
        guest.sessions.update(session, thinking="high"),
        guest.sessions.update(session, thinking=None),
        guest.sessions.update(session, personality="coach"),
        guest.sessions.update(session, personality=None),
        guest.sessions.update(session, personality="unknown", title="Mine"),
        guest.chat.send("hello", session=session, model="script/two"),
        guest.commands.run("/new", session=session, model="script/two"),
        guest.commands.run("/new", session=session, wanted=Wanted(personality="coach")),
    ):
        with pytest.raises(Forbidden):
            await attempt
    after = (await guest.sessions.get(session)).session
    assert (after.model, after.thinking, after.personality) == ("script/one", None, None)
    assert after.title != "Mine"
    status = await guest.status()
    assert status.stats is None
    assert status.store is None


async def test_a_guest_may_still_name_and_mark_what_is_theirs(place: Place) -> None:
    guest = await place.client(GUEST, "write")
    session = await place.talked(guest, "hello")
    changed = await guest.sessions.update(session, title="Mine", pinned=True)
    assert (changed.title, changed.pinned) == ("Mine", True)


async def test_a_guest_gets_the_names_of_personalities_without_their_prompts(
    place: Place, client: Client
) -> None:
    guest = await place.client(GUEST, "write")
    for own, theirs in zip(
        await client.personalities.list(), await guest.personalities.list(), strict=True
    ):
        assert own.soul
        named = Personality(id=own.id, name=own.name, description=own.description)
        assert theirs == named
        assert await guest.personalities.get(own.id) == named
        assert await client.personalities.get(own.id) == own


async def test_an_operation_needs_its_scope(place: Place, scope: Scope) -> None:
    """Every one of the table, with parameters that can't do harm."""
    client = await place.client("owner", scope)
    harmless: dict[str, Any] = {
        "id": "00000000-0000-4000-8000-000000000000",
        "session": "00000000-0000-4000-8000-000000000000",
        "store": "memory",
        "value": "nothing",
        "decision": "no",
        "who": "nobody",
        "name": "spare",
        "scopes": ["read"],
        "text": "hello",
        "content": "",
        "number": 1,
        "schedule": "never",
        "where": {"cwd": "/nowhere", "project": "/nowhere"},
        "key": "cli:nowhere",
        "line": "/help",
        "q": "nothing",
        "ids": "00000000-0000-4000-8000-000000000000",
        "hash": "0" * 64,
        "edit": {},
        "question": "Who are you?",
        "changes": [
            {"id": "00000000-0000-4000-8000-000000000000", "before": {}, "after": {}},
        ],
    }
    for operation in OPERATIONS:
        needed = {
            name: value
            for name, value in harmless.items()
            if name in operation.takes.__struct_fields__
            and (name, operation.name) != ("decision", "pairings.decide")
        }
        if operation.name == "records.add":
            needed["changes"] = [{"type": "title", "title": "spare"}]
        if operation.name == "records.put":
            needed |= {"data": "", "media_type": "text/plain"}
        if "ids" in needed and operation.has_body:
            needed["ids"] = [needed["ids"]]
        try:
            await client.call(operation.name, needed)
            allowed = True
        except Forbidden:
            allowed = False
        except Exception:  # noqa: BLE001  # anything else comes after the scope was looked at
            allowed = True
        assert allowed == covers((scope,), operation.scope), operation.name


async def test_a_token_is_made_shown_once_listed_and_revoked(client: Client) -> None:
    made = await client.tokens.create("laptop", ("chat",))
    assert made.secret.startswith("clew_")
    assert made.token in await client.tokens.list()
    assert (await client.tokens.revoke(made.token.id)).revoked_at is not None


async def test_an_admin_token_is_the_owners(client: Client) -> None:
    with pytest.raises(InvalidInput):
        await client.tokens.create("theirs", ("admin",), person=GUEST)


async def run(client: Client, line: str, session: str) -> CommandReply:
    return await client.do(commands_rows.RUN, RunCommand(line=line, session=session))


async def test_a_command_needs_the_scope_of_what_it_does(place: Place, client: Client) -> None:
    key = "agent:main:main"
    session = await place.talked(client, "hello", key=key)
    talker = await place.client(scope="chat")
    for line in ("/title Mine", "/model script/two", "/approve", "/pair telegram:7", "/undo"):
        with pytest.raises(Forbidden, match="needs a token with the scope"):
            await run(talker, line, session)
    assert not (await run(talker, "/status", session)).is_error
    with pytest.raises(Forbidden):
        await run(await place.client(scope="write"), "/pair telegram:7", session)

    await place.talked(talker, "/pair telegram:7", key=key)

    messages = (await client.sessions.messages(session)).messages
    assert "/pair telegram:7" in [each.content for each in messages]
    assert await place.store.list_pairings() == ()


async def test_a_token_is_for_nobody_who_only_looks_like_somebody(client: Client) -> None:
    with pytest.raises(InvalidInput, match="spaces around"):
        await client.tokens.create("mine", ("chat",), person="owner ")
