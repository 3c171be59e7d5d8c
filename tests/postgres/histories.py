"""A store in which every table has something to say, for what moves whole stores."""

from __future__ import annotations

import uuid

from clew.core import changes
from clew.core.channels.people import NewPairing
from clew.core.delivery import ContextLine, NewInbound, NewOutbound
from clew.core.message import Draft
from clew.core.notes import ImportNote, Todo
from clew.core.session import NewSession, SessionEdit
from clew.core.tokens import Token
from clew.core.turn import Lease
from clew.core.usage import Usage
from clew.ports import Store
from clew.store import open_store

FIRST = "00000000-0000-7000-8000-000000000001"
"""Of a fork, which so comes before its parent."""

TEXTS = (
    "the quick brown foxes are running",
    "日本語のテキスト と english words",
    "nul \0 and lone \ud83d surrogate",
    "tab\tnewline\nbackslash \\. quote ' \\N",
    "emoji 👩‍👩‍👧 café CAFÉ",
)


async def fill(url: str, *, messages: int = 40) -> str:
    """Sessions of every state, and what hangs on them; returns the main one's id."""
    async with await open_store(url, clock=lambda: 1) as store:
        await store.accept(NewInbound(id="old", channel="tg", key="tg:1", position=7))
        await store.drop_inbound(["old"])
    async with await open_store(url) as store:
        await store.sweep()  # which leaves the cursor of the channel
        main = await store.create_session(NewSession(key="cli:main", title="Main é\0"))
        lease = await store.acquire_lease(main.id, "test")
        await _talk(store, lease, messages)
        await store.release_lease(lease)
        await _fork(store, main.id)
        for title in ("archived", "trashed", "purged"):
            other = await store.create_session(NewSession(key=f"cli:{title}", title=title))
            lease = await store.acquire_lease(other.id, "test")
            await store.append(other.id, lease.epoch, Draft(role="user", content=f"{title} words"))
            await store.release_lease(lease)
            if title == "archived":
                await store.edit_session(
                    other.id, SessionEdit(archived=True), revision=other.revision
                )
                continue
            if title == "purged":
                await store.fork_session(other.id)  # so that something of it has to stay
            await store.delete_sessions([other.id])
            if title == "purged":
                await store.purge_sessions([other.id])
        await _deliver(store, main.id)
    return main.id


async def _talk(store: Store, lease: Lease, messages: int) -> None:
    session_id = lease.session_id
    blob = await store.put_blob(bytes(range(256)), "image/png")
    for number in range(messages):
        turn = f"turn-{uuid.uuid4().hex}"
        told: list[changes.Change] = [
            changes.StartTurn(turn_id=turn, model="m"),
            changes.AddMessage(Draft(role="user", content=TEXTS[number % len(TEXTS)]), turn),
            changes.AddUsage(usage=Usage(input_tokens=5, cost=None), turn_id=turn),
            changes.EndTurn(turn_id=turn, status="failed", error="no é", partial="par"),
        ]
        if number == 1:
            told.append(changes.UndoTurn(turn))
        await store.record(session_id, lease.epoch, *told, idempotency_key=f"k{number}")
    picture = Draft(role="user", content="look", parts=({"type": "image", "blob": blob},))
    await store.append(session_id, lease.epoch, picture)
    await store.record(
        session_id,
        lease.epoch,
        changes.StartTurn(turn_id="waits"),
        changes.WaitForApproval(approval_id="b", turn_id="waits", tool_call_id="c",
                                tool_name="shell", request={"a": 1}, expires_at=9**15),
        changes.AddCompaction(compaction_id="z", keep_from=2, summary="first"),
        changes.AddCompaction(compaction_id="a", keep_from=3, summary="second"),
        changes.WriteScratch("notes", "scratch é"),
        changes.WriteTodos((Todo("one", "done"), Todo("two", "pending"))),
        changes.Send(NewOutbound(id="o2", key="tg:1", channel="tg", content="hi", seq=1)),
        changes.Send(NewOutbound(id="o1", key="tg:1", channel="tg", content="ho", seq=2)),
    )  # fmt: skip


async def _fork(store: Store, parent: str) -> None:
    for at in (None, 3):
        child = await store.fork_session(parent, at=at, new_id=FIRST if at else None)
        lease = await store.acquire_lease(child.id, "test")
        await store.append(child.id, lease.epoch, Draft(role="user", content="in the fork"))
        await store.release_lease(lease)


async def _deliver(store: Store, session_id: str) -> None:
    await store.set_route("tg:1", session_id)
    for name in ("zebra", "apple", "mango"):
        await store.accept(NewInbound(id=name, channel="tg", key="tg:1", external_id=name))
        await store.add_line(
            ContextLine(id=name, key="tg:1", channel="tg", content=name, external_id=name)
        )
        await store.add_token(
            Token(id=name, name=name, person="owner", scopes=("read",), created_at=1), name.encode()
        )
        asking = NewPairing(
            person=f"tg:{name}", channel="tg", code=name, name=name, reply_to={"key": name}
        )
        await store.ask_pairing(asking, most=9)
    await store.redeem_pairing("apple", by="owner")
    note = ImportNote(session_id="gone", agent="codex", native_id="n", stamp="1:2", head=3)
    await store.note_import(note)
