from __future__ import annotations

import pytest

from clew.client.client import Client
from clew.core.tokens import Scope, covers
from clew.errors import Forbidden, InvalidInput, SessionNotFound
from clew.operations import OPERATIONS
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
    with pytest.raises(SessionNotFound):
        await guest.chat.send("hello", key="agent:main:main")
    with pytest.raises(Forbidden):
        await guest.chat.send("hello", key="agent:main:other")


async def test_what_is_the_owners_alone_is_refused_to_a_guest(place: Place) -> None:
    guest = await place.client(GUEST, "write")
    session = await place.talked(guest, "hello")
    for attempt in (
        guest.memory.get(),
        guest.memory.write(content="mine"),
        guest.memory.history(),
        guest.usage(),
        guest.approvals.decide("abc", "yes"),
        guest.outbox.retry("abc"),
        guest.cron.list(),
        guest.cron.add("news", "@daily", "What is new?"),
        guest.cron.run("news"),
        guest.sessions.update(session, send_policy="allow"),
    ):
        with pytest.raises(Forbidden):
            await attempt
    status = await guest.status()
    assert status.stats is None
    assert status.store is None


async def test_an_operation_needs_its_scope(place: Place, scope: Scope) -> None:
    """Every one of the table, with parameters that can't do harm."""
    client = await place.client("owner", scope)
    harmless = {
        "id": "00000000-0000-4000-8000-000000000000",
        "session": "00000000-0000-4000-8000-000000000000",
        "store": "memory",
        "value": "nothing",
        "decision": "no",
        "name": "spare",
        "scope": "read",
        "text": "hello",
        "content": "",
        "schedule": "never",
        "where": {"cwd": "/nowhere", "project": "/nowhere"},
        "key": "cli:nowhere",
        "line": "/help",
        "q": "nothing",
        "ids": "00000000-0000-4000-8000-000000000000",
    }
    for operation in OPERATIONS:
        needed = {
            name: value
            for name, value in harmless.items()
            if name in operation.takes.__struct_fields__
            and (name, operation.name) != ("scope", "approvals.decide")
        }
        try:
            await client.call(operation.name, needed)
            allowed = True
        except Forbidden:
            allowed = False
        except Exception:  # noqa: BLE001  # anything else comes after the scope was looked at
            allowed = True
        assert allowed == covers(scope, operation.scope), operation.name


async def test_a_token_is_made_shown_once_listed_and_revoked(client: Client) -> None:
    made = await client.tokens.create("laptop", "chat")
    assert made.secret.startswith("clew_")
    assert made.token in await client.tokens.list()
    assert (await client.tokens.revoke(made.token.id)).revoked_at is not None


async def test_an_admin_token_is_the_owners(client: Client) -> None:
    with pytest.raises(InvalidInput):
        await client.tokens.create("theirs", "admin", person=GUEST)
