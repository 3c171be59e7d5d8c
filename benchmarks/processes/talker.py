"""What `turns` kills: a process that talks to a scripted model, and checks what it finds first.

A life opens the store, sits down at the session as a terminal does, and compares what is there
with everything that earlier lives were told (`Ledger`). Then it goes on: with what waits in the
inbox, with `/retry`, or with the next question. Every question has two rounds of tools, each with
one that asks first and leaves a mark in a file. The talker knows nothing of who kills it, or when.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.api.seats import Seated
from clew.client.client import Client
from clew.client.seats import locate
from clew.config import load
from clew.core.context.thread import repair
from clew.core.live_events import ApprovalAsked, Committed, Event
from clew.core.message import Message
from clew.core.turn import Turn
from clew.ports import Store
from clew.runtime.place.attachment import Attachments
from clew.terminal.live import Sent, open_live
from clew.terminal.seat import Seat
from clew.wiring import House, open_configured_store

STUCK = 60.0
KEY = "cli:killed"
ENDS = ("done", "failed", "aborted", "interrupted")

Fact = Literal["accepted", "committed", "ended", "point", "problem", "finished"]
Post = Callable[[Fact, str, int], None]


class Ledger(msgspec.Struct):
    """What the runtime has reported so far: it must hold for ever."""

    accepted: set[str] = msgspec.field(default_factory=set)
    committed: dict[int, str] = msgspec.field(default_factory=dict)
    ended: dict[str, str] = msgspec.field(default_factory=dict)


class World(msgspec.Struct, frozen=True):
    """A home with a scripted model, and a directory to work in."""

    folder: Path
    questions: int = 1
    tools: int = 2

    @property
    def home(self) -> Path:
        """Where clew keeps everything."""
        return self.folder / "home"

    @property
    def marks(self) -> Path:
        """One line for each run of a tool that changes something."""
        return self.folder / "work" / "ran.txt"

    def make(self) -> None:
        """Write the configuration, the script and what the tools read."""
        self.home.mkdir(parents=True)
        self.marks.parent.mkdir()
        script = self.folder / "script.json"
        script.write_text(json.dumps(self._script()))
        (self.home / "config.toml").write_text(
            'model = "script/x"\n[providers.script]\nkind = "python"\n'
            f'factory = "clew.testing.scripted:open_model"\nbase_url = {json.dumps(str(script))}\n'
        )
        for number in range(self.tools):
            (self.marks.parent / f"note{number}.txt").write_text(f"note {number}\n")

    def question(self, number: int) -> str:
        """What the user says."""
        return f"Question {number}: do it, please."

    def answers(self, number: int) -> tuple[str, ...]:
        """What the assistant says to it, in this order."""
        return (f"{number}: first.", f"{number}: second.", f"{number}: all of it is done.")

    def _script(self) -> dict[str, Any]:
        return {
            "title": "A killed session",
            "rules": [
                {"when": f"^Question {number}:", "answers": self._rounds(number)}
                for number in range(1, self.questions + 1)
            ],
        }

    def _rounds(self, number: int) -> list[dict[str, Any]]:
        first, second, last = self.answers(number)
        return [
            {"text": first, "tool_calls": self._calls(number, 1)},
            {"text": second, "tool_calls": self._calls(number, 2)},
            {"text": last},
        ]

    def _calls(self, number: int, part: int) -> list[dict[str, Any]]:
        """Some that may run together, then one that changes something; their ids are marks."""
        reads = [
            {
                "id": f"q{number}.{part}.read{each}",
                "name": "read_file",
                "arguments": {"path": f"note{each}.txt"},
            }
            for each in range(self.tools)
        ]
        mark = f"q{number}.{part}"
        command = f"echo {mark} >> ran.txt; echo made {mark}"
        shell = {"id": mark, "name": "shell", "arguments": {"command": command}}
        return [*reads, shell]


class Talk(msgspec.Struct, frozen=True):
    """One life's parts."""

    world: World
    store: Store
    house: House
    seat: Seat
    post: Post


async def live(world: World, ledger: Ledger, post: Post) -> None:
    """Check, recover, and talk until every question is answered."""
    async with sit(world, post) as talk:
        before = await _check_kept(talk, ledger)
        session = await talk.store.find_route(KEY)
        seated = await talk.seat.switch(session, "startup")
        await _check_recovered(talk, ledger, before, seated)
        if talk.seat.session is None and world.questions:
            await talk.seat.make_ready()
        if talk.seat.session is not None:
            await talk_on(talk, seated)
            await _check_answered(talk)
    post("finished", "", 0)


@asynccontextmanager
async def sit(world: World, post: Post) -> AsyncIterator[Talk]:
    """A store, a house and a seat in it, until the block is left."""
    config = load(home=str(world.home), environ={})
    store = await open_configured_store(config)
    house = House(config, store)
    house.is_terminal = True
    house.attachments = Attachments(store)
    client = Client(transport=LocalTransport(Calls(house), Caller()))
    try:
        async with open_live(client) as events:
            seat = Seat(client, events, place=locate(world.marks.parent), key=KEY)
            try:
                yield Talk(world, store, house, seat, post)
            finally:
                await seat.leave()
    finally:
        await house.close()
        await store.close()


# --- going on -----------------------------------------------------------------------------------


async def talk_on(talk: Talk, seated: Seated) -> None:
    """Answer what waits first, then what was interrupted, then ask what was not asked yet."""
    seat, session = talk.seat, talk.seat.session
    assert session is not None
    async with asyncio.TaskGroup() as answers:
        seat.live.show = partial(_show, talk, answers)
        await seat.live.follow(session)
        for inbound in seated.unanswered:
            await _follow(talk, await seat.run_waiting(inbound))
        turns = await talk.store.list_turns(session.id, limit=1)
        if turns and turns[0].status != "done":
            reply, sent = await seat.run_command("/retry")
            assert sent is not None, reply.text
            await _follow(talk, sent)
        for number in range(await _count_asked(talk) + 1, talk.world.questions + 1):
            sent = await seat.say(talk.world.question(number))
            talk.post("accepted", talk.world.question(number), number)
            await _follow(talk, sent)


def _show(talk: Talk, answers: asyncio.TaskGroup, event: Event) -> None:
    """What a screen does: show what is committed, and say yes to everything."""
    match event:
        case Committed(message):
            talk.post("committed", _line(message), message.seq)
        case ApprovalAsked(approval):
            answers.create_task(talk.seat.answer(approval, "yes"))
        case _:
            pass


async def _follow(talk: Talk, sent: Sent) -> None:
    turn = await asyncio.wait_for(sent.turn, STUCK)
    await talk.house.runtime.settle(turn.session_id)
    talk.post("ended", f"{turn.id} {turn.status}", 0)
    if turn.status != "done":
        talk.post("problem", f"a turn that was left alone {turn.status}: {turn.error}", 0)


async def _count_asked(talk: Talk) -> int:
    return sum(message.role == "user" for message in await _thread(talk))


# --- looking ------------------------------------------------------------------------------------


async def _thread(talk: Talk) -> tuple[Message, ...]:
    session = await talk.store.find_route(KEY)
    return () if session is None else await talk.store.get_messages(session.id)


async def _turns(talk: Talk) -> tuple[Turn, ...]:
    session = await talk.store.find_route(KEY)
    return () if session is None else await talk.store.list_turns(session.id, limit=1000)


def _line(message: Message) -> str:
    calls = ",".join(call.id for call in message.tool_calls)
    return f"{message.role} {message.tool_call_id or ''} [{calls}] {message.content}"


def _marks(world: World) -> Counter[str]:
    return Counter(world.marks.read_text().split() if world.marks.exists() else ())


class Left(msgspec.Struct, frozen=True):
    """What a dead life left: to see that nothing runs by itself."""

    thread: tuple[Message, ...]
    open_turns: frozenset[str]
    marks: Counter[str]


async def _check_kept(talk: Talk, ledger: Ledger) -> Left:
    """Check that everything reported is there, before anything is repaired."""
    thread, turns = await _thread(talk), await _turns(talk)
    said = {message.seq: _line(message) for message in thread}
    for seq, line in ledger.committed.items():
        if said.get(seq) != line:
            talk.post("problem", f"message {seq} was shown as {line!r}, now {said.get(seq)!r}", 0)
    ends = {turn.id: turn.status for turn in turns}
    for turn_id, status in ledger.ended.items():
        if ends.get(turn_id) != status:
            talk.post("problem", f"turn {turn_id} ended {status}, now {ends.get(turn_id)}", 0)
    session = await talk.store.find_route(KEY)
    rows = () if session is None else await talk.store.list_inbound(session.id)
    waiting = [str(row.payload.get("text")) for row in rows]
    asked = Counter([*waiting, *(each.content for each in thread if each.role == "user")])
    for text in ledger.accepted:
        if asked[text] != 1:
            talk.post("problem", f"{text!r} was accepted once and is there {asked[text]} times", 0)
    _check_tools(talk, thread)
    open_turns = frozenset(turn.id for turn in turns if turn.status not in ENDS)
    return Left(thread, open_turns, _marks(talk.world))


def _check_tools(talk: Talk, thread: Sequence[Message]) -> None:
    """No call ran twice; one whose result is kept ran; each call has one result at most."""
    marks = _marks(talk.world)
    for mark, count in marks.items():
        if count > 1:
            talk.post("problem", f"the tool call {mark} ran {count} times", 0)
    results = Counter(each.tool_call_id for each in thread if each.role == "tool")
    for call, count in results.items():
        if count > 1:
            talk.post("problem", f"the call {call} has {count} results", 0)
    for message in thread:
        call = message.tool_call_id or ""
        if message.tool_name == "shell" and (message.is_error or not marks[call]):
            talk.post("problem", f"the result of {call} is {message.content!r}, {marks=}", 0)


async def _check_recovered(talk: Talk, ledger: Ledger, left: Left, seated: Seated) -> None:
    """Unfinished turns are `interrupted`, messages without a turn are offered, nothing ran."""
    thread, turns = await _thread(talk), await _turns(talk)
    if thread != left.thread or _marks(talk.world) != left.marks:
        talk.post("problem", "sitting down changed the thread, or ran something", 0)
    if wrong := [each.id for each in turns if each.status not in ("done", "interrupted")]:
        talk.post("problem", f"turns that are neither done nor interrupted: {wrong}", 0)
    told = {turn.id for turn in seated.interrupted}
    if told != left.open_turns:
        talk.post("problem", f"interrupted {told}, but open were {set(left.open_turns)}", 0)
    if seated.session is not None:
        waiting = await talk.store.list_approvals(seated.session.id)
        if waiting:
            talk.post("problem", "an approval of a dead turn still waits", 0)
    asked = {message.content for message in thread if message.role == "user"}
    offered = {str(each.payload.get("text")) for each in seated.unanswered}
    if missing := ledger.accepted - asked - offered:
        talk.post("problem", f"accepted, and neither asked nor offered: {missing}", 0)
    for problem in find_faults(repair(thread)):
        talk.post("problem", f"the mended thread: {problem}", 0)


async def _check_answered(talk: Talk) -> None:
    """Every question is there once, with all its answers in order, and no turn is open."""
    world, thread = talk.world, await _thread(talk)
    wanted = [
        text
        for number in range(1, world.questions + 1)
        for text in (world.question(number), *world.answers(number))
    ]
    spoken = [message.content for message in thread if message.role != "tool"]
    if spoken != wanted:
        talk.post("problem", f"in the end the thread reads {spoken}", 0)
    _check_tools(talk, thread)
    for problem in find_faults(repair(thread)):
        talk.post("problem", f"the thread of the end: {problem}", 0)
    last = (await _turns(talk))[-1]
    if last.status != "done":
        talk.post("problem", f"the last turn is {last.status}", 0)
    session = await talk.store.find_route(KEY)
    assert session is not None
    if await talk.store.list_inbound(session.id):
        talk.post("problem", "something is still in the inbox", 0)


def find_faults(thread: Sequence[Message]) -> list[str]:
    """What providers would refuse, written down without a look at how `repair` works."""
    faults = []
    ids = [call.id for row in thread for call in row.tool_calls]
    if len(ids) != len(set(ids)) or not all(ids):
        faults.append("ids of calls are not unique, or empty")
    if thread and thread[0].role != "user":
        faults.append("the first word is not the user's")
    before, place = None, 0
    while place < len(thread):
        row = thread[place]
        if row.role == "tool":
            faults.append(f"a result without its call: {row.tool_call_id}")
        if row.role == before:
            faults.append(f"two of {row.role} in a row")
        before, place = row.role, place + 1
        for call in row.tool_calls:
            answer = thread[place] if place < len(thread) else None
            if answer is None or (answer.role, answer.tool_call_id) != ("tool", call.id):
                faults.append(f"the call {call.id} is not answered at once")
                break
            before, place = "tool", place + 1
    return faults
