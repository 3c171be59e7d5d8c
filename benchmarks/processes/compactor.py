"""A process that compacts a long conversation, and checks what it finds first.

A life opens the store and sits down at a session in which much was said before anybody was killed.
It finds the session exactly as it was then, or fully compacted: nothing between the two. Then it
goes on: with `/compact`, with a message before which the thread is compacted by itself, or with one
that is too long for the model, so that room is made for it. Who kills it, and when, is `turns`'
business; what else of a turn has to hold is in `talker`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.long_chat import ANSWER, WINDOW
from benchmarks.processes.talker import KEY, Ledger, Post, Talk, World, sit, talk_on
from clew.core.changes import AddMessage, AddUsage, EndTurn, StartTurn, WriteScratch, WriteTodos
from clew.core.context.compaction import parse_sections
from clew.core.message import Draft, Message
from clew.core.notes import ScratchEntry, Todo
from clew.core.session import NewSession, Session
from clew.core.turn import Turn
from clew.core.usage import Usage

Way = Literal["asked", "due", "rescue"]

EXCHANGES = 12
GOAL = "to see the lighthouse"
WORDS = {"asked": 300, "due": 300, "rescue": 700}
"""Words of each thing that was said: some of it is too long for the model, if nobody knows it."""


class Before(msgspec.Struct, frozen=True):
    """A session as it was before the first kill."""

    session: Session
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    todos: tuple[Todo, ...]
    scratch: tuple[ScratchEntry, ...]


class LongWorld(World, frozen=True):
    """A home with `LongChatModel` as its model; the question comes after all that was said."""

    way: Way = "asked"

    @property
    def before(self) -> Path:
        """What the session was."""
        return self.home / "before.json"

    def make(self) -> None:
        """Write the configuration."""
        self.home.mkdir(parents=True)
        self.marks.parent.mkdir()
        (self.home / "config.toml").write_text(
            'model = "diary/x"\n[memory]\nflush = false\n[providers.diary]\nkind = "python"\n'
            f'factory = "benchmarks.long_chat:open_model"\ncontext_window = {WINDOW}\n'
        )

    def question(self, number: int) -> str:
        """What the user says."""
        return f"day {number}: go on, please."


async def prepare(world: LongWorld, _ledger: Ledger, post: Post) -> None:
    """Say much, and write down what the session is then."""
    async with sit(world, post) as talk:
        await _fill(talk, world)
        before = await _look(talk)
        world.before.write_bytes(msgspec.json.encode(before))
    post("finished", "", 0)


async def _fill(talk: Talk, world: LongWorld) -> None:
    store, cwd = talk.store, str(world.marks.parent)
    new = NewSession(key=KEY, cwd=cwd, project=cwd, model="diary/x", title="A diary")
    session = await store.create_session(new)
    lease = await store.acquire_lease(session.id, store.identity)
    tokens = {"asked": 9_000, "due": 13_000, "rescue": 100}[world.way]
    usage = Usage(tokens, 10, cost=1, api_calls=1)
    for number in range(1, EXCHANGES + 1):
        said = f"My goal is {GOAL}. day {number}: " + "word " * WORDS[world.way]
        answer = Draft(role="assistant", content="well " * WORDS[world.way], usage=usage)
        await store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id=f"day{number}", model="diary/x"),
            AddMessage(Draft(role="user", content=said), f"day{number}"),
            AddMessage(answer, f"day{number}", from_person=False),
            AddUsage(usage=usage, turn_id=f"day{number}", context_tokens=tokens + 10),
            EndTurn(turn_id=f"day{number}", status="done"),
        )
    notes = WriteTodos((Todo("the lamp", "in_progress"),)), WriteScratch("log", "x" * 500)
    await store.record(session.id, lease.epoch, *notes)
    await store.release_lease(lease)


async def live(world: LongWorld, _ledger: Ledger, post: Post) -> None:
    """Check, compact, and talk until the question is answered."""
    before = msgspec.json.decode(world.before.read_bytes(), type=Before)
    async with sit(world, post) as talk:
        await _check(talk, before)
        session = await talk.store.find_route(KEY)
        seated = await talk.seat.switch(session, "startup")
        if world.way == "asked" and await talk.store.find_compaction(before.session.id) is None:
            reply, _ = await talk.seat.run_command("/compact keep the numbers")
            if reply.is_error:
                post("problem", f"/compact says: {reply.text}", 0)
            await _check(talk, before)
        await talk_on(talk, seated)
        await _check(talk, before)
        await _check_end(talk, before)
    post("finished", "", 0)


async def _look(talk: Talk) -> Before:
    session = await talk.store.find_route(KEY)
    assert session is not None
    return Before(
        session,
        await talk.store.get_messages(session.id),
        await talk.store.list_turns(session.id, limit=1_000),
        await talk.store.get_todos(session.id),
        await talk.store.list_scratch(session.id),
    )


async def _check(talk: Talk, before: Before) -> None:
    """The history is whole; the rest is as it was, or as a compaction leaves it."""
    now = await _look(talk)
    made = await talk.store.list_compactions(now.session.id)
    spent = sum((turn.usage for turn in now.turns), Usage())
    checks = {
        "the history is another": now.messages[: len(before.messages)] == before.messages,
        "todos or scratchpad are others": (now.todos, now.scratch)
        == (before.todos, before.scratch),
        f"its totals {now.session.usage} are not its turns' {spent}": now.session.usage == spent,
        f"compacted {len(made)} times": len(made) <= 1,
    }
    if made:
        goal = parse_sections(made[0].summary).get("Goal")
        rest = [each for each in before.messages if each.seq >= made[0].keep_from]
        checks |= {
            f"the goal is {goal!r}": goal == GOAL,
            f"it goes on at {made[0].keep_from}": bool(rest) and rest[0].role == "user",
            "the row says otherwise": now.session.compactions == 1,
            "there is no line for lists": bool(now.session.short_summary),
            "the summary was not paid for": spent.api_calls > EXCHANGES,
        }
    else:
        old = now.turns[: len(before.turns)]
        checks["what was spent before is another"] = old == before.turns
        if old == now.turns:
            checks["the session is not as it was"] = now.session == before.session
    for problem, ok in checks.items():
        if not ok:
            talk.post("problem", problem, 0)


async def _check_end(talk: Talk, before: Before) -> None:
    """Compacted once, and the question is answered once, in a request that fitted."""
    now = await _look(talk)
    said = [each.content for each in now.messages[len(before.messages) :]]
    if said != [talk.world.question(EXCHANGES + 1), ANSWER]:
        talk.post("problem", f"in the end {said} was said", 0)
    if now.session.compactions != 1:
        talk.post("problem", f"in the end {now.session.compactions} compactions", 0)
    if now.turns[-1].status != "done":
        talk.post("problem", f"the last turn is {now.turns[-1].status}", 0)
