"""The same picker at a gateway: every call that it makes goes over HTTP."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from clew.client.client import Client
from clew.clock import host_clock
from clew.core.session import OWNER, SessionEdit
from clew.core.tokens import Token, digest_of
from clew.ports import Store
from clew.store import open_store
from tests.client.serving import serving
from tests.terminal.picker.desk import add, calls_of, picker


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    secret = secrets.token_urlsafe(32)
    token = Token(secrets.token_hex(8), "test", OWNER, ("write",), host_clock())
    await store.add_token(token, digest_of(secret))
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serving(calls_of(store)))
        yield await stack.enter_async_context(Client(url, secret))


async def test_names_and_messages_are_found_and_one_is_picked(
    store: Store, client: Client, here: Path, elsewhere: Path
) -> None:
    await add(store, "Repair the bicycle", "the chain is loose", cwd=here)
    await add(store, "Groceries", "buy milk", "and a lock for the bicycle", cwd=here)
    await add(store, "Elsewhere", "no bicycle", cwd=elsewhere)
    async with picker(client, here) as hands:
        await hands.list("Groceries", "Repair the bicycle")
        await hands.see("buy milk")
        await hands.type("bicycle")
        await hands.list("Repair the bicycle", "── in messages", "Groceries")
        await hands.press("down")
        await hands.see("and a lock for the bicycle")
        await hands.press("enter")
        picked = await hands.ended()
    assert picked is not None
    assert picked.session.title == "Groceries"


async def test_all_pages_of_names_are_loaded(store: Store, client: Client, here: Path) -> None:
    for number in range(150):
        await add(store, f"Number {number:03}", cwd=here)
    async with picker(client, here) as hands:
        await hands.press("end")
        await hands.at("Number 000")


async def test_an_archived_session_is_found_by_what_was_said_in_it(
    store: Store, client: Client, here: Path
) -> None:
    archived = await add(store, "Old", "about palimpsests", cwd=here)
    await store.edit_session(archived.id, SessionEdit(archived=True))
    async with picker(client, here) as hands:
        await hands.type("palimpsest")
        await hands.list("── in messages", "Old")
        await hands.see("archived")


async def test_changes_are_made_there(store: Store, client: Client, here: Path) -> None:
    session = await add(store, "Alpha", "hello", cwd=here)
    async with picker(client, here) as hands:
        await hands.press("ctrl+r")
        await hands.until(lambda: hands.app.picker.has_class("-renaming"))
        await hands.type("bet")
        await hands.press("enter")
        await hands.list("Alphabet")
        await hands.press("ctrl+t")
        await hands.see('Pinned "Alphabet".')
        await hands.press("delete")
        await hands.see("in the trash? [y/N]")
        await hands.press("y")
        await hands.see("Ctrl+Z brings it back.")
        assert (await store.get_session(session.id)).deleted_at is not None
        await hands.press("ctrl+z")
        await hands.see('"Alphabet" is back.')
    changed = await store.get_session(session.id)
    assert (changed.title, changed.pinned, changed.deleted_at) == ("Alphabet", True, None)


async def test_a_choice_of_a_few_is_searched_too(store: Store, client: Client, here: Path) -> None:
    one = await add(store, "One", "fruit", "apples", cwd=here)
    two = await add(store, "Two", "fruit", "pears", cwd=here)
    await add(store, "Three", "fruit", "pears and apples", cwd=here)
    async with picker(client, here, only=(one, two)) as hands:
        await hands.type("pears")
        await hands.list("── in messages", "Two")


async def test_a_terminal_at_the_store_itself_has_it_open_elsewhere(
    store: Store, client: Client, here: Path, tmp_path: Path
) -> None:
    session = await add(store, "Alpha", "hello", cwd=here)
    async with await open_store(str(tmp_path / "store" / "sessions.db")) as other:
        await other.attach(session.id, terminal="pts-3")
        async with picker(client, here) as hands:
            await hands.see("Alpha  ◦ open elsewhere")


async def test_a_token_that_only_reads_changes_nothing_and_says_why(
    store: Store, here: Path
) -> None:
    session = await add(store, "Alpha", "hello", cwd=here)
    secret = secrets.token_urlsafe(32)
    token = Token(secrets.token_hex(8), "test", OWNER, ("read",), host_clock())
    await store.add_token(token, digest_of(secret))
    async with (
        serving(calls_of(store)) as url,
        Client(url, secret) as reader,
        picker(reader, here) as hands,
    ):
        await hands.press("ctrl+t")
        await hands.see("needs a token with the scope write")
    assert not (await store.get_session(session.id)).pinned
