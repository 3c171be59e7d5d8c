"""Believable conversations from a seed: the same seed gives the same conversations.

`Corpus` decides which conversations there are, and when; `Speech` makes the sentences, out of the
word lists in `phrases.toml`; `load` writes conversations into any store, through the ports. The
sentences of a topic are made once and then drawn, so a text costs microseconds.
"""

from __future__ import annotations

import asyncio
import math
import random
import tomllib
import uuid
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from clew.core.changes import AddMessage, AddUsage, Change, EndTurn, StartTurn
from clew.core.message import Draft, ToolCall
from clew.core.session import OWNER, Kind, NewSession, SessionEdit
from clew.core.usage import Usage
from clew.ports import Store
from clew.testing.clock import FakeClock

MINUTE = 60_000
DAY = 24 * 60 * MINUTE

Blend = Literal["mixed", "english", "cjk"]
"""Which languages are spoken: many, English only, or only scripts without spaces."""

USUAL_LENGTH = 18
"""Messages of a session, on average, unless told otherwise."""

SPACELESS = ("chinese", "japanese", "korean", "thai")

POOL = 1_000
"""Different sentences of the agent on one topic; people have half as many."""

RECORD = 200
"""Most changes in one record: a longer one would make other writers wait."""

FORKED = 0.05
FORKABLE = 6
"""Of the conversations with more messages than this, a share of `FORKED` is forked."""

Turns: TypeAlias = tuple[tuple[Change, ...], ...]
"""The changes of each turn."""


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A session that leaves another one after the message `at`, and goes on by itself."""

    id: str
    at: int
    made_at: int
    turns: Turns
    messages: int


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A session to be made, and perhaps a fork of it. `messages` are its own."""

    new: NewSession
    turns: Turns
    messages: int
    pinned: bool = False
    archived: bool = False
    fork: Fork | None = None


class Span(NamedTuple):
    """How long a session is, and when it ended."""

    messages: int
    ended_at: int

    @property
    def began_at(self) -> int:
        """When it began, at two minutes for each message."""
        return self.ended_at - self.messages * 2 * MINUTE


class _Model(NamedTuple):
    name: str
    provider: str
    nanos_in: int | None
    nanos_out: int | None


_MODELS = (
    _Model("claude-sonnet-4-5", "anthropic", 3_000, 15_000),
    _Model("gpt-5-mini", "openai", 250, 2_000),
    _Model("claude-haiku-4-5", "anthropic", 1_000, 5_000),
    _Model("smollm2-135m", "local", None, None),
)

_PLATFORMS = ("cli", "telegram", "slack", "web", "discord", "email", "cron")
_PLATFORM_WEIGHTS = (55, 12, 9, 7, 6, 6, 5)
_TOOLS = ("read_file", "search", "run_tests", "shell", "list_files")


class Corpus:
    """Conversations of the last half year before `now` (milliseconds UTC)."""

    def __init__(self, *, now: int, seed: int = 7, blend: Blend = "mixed") -> None:
        self._rng = random.Random(seed)  # noqa: S311  # repeatable, nothing secret
        self._now = now
        phrases = load_phrases()
        self._speeches: list[Speech] = []
        if blend != "cjk":
            words = phrases["english"]
            self._speeches = [make_english(self._rng, words, topic) for topic in words["topics"]]
        if blend != "english":
            tongues = SPACELESS if blend == "cjk" else tuple(phrases["languages"])
            # Seven conversations in English for one in another language.
            self._speeches *= 6
            self._speeches += [
                make_foreign(self._rng, phrases["languages"][name]) for name in tongues
            ]

    def conversations(self, sessions: int, messages: int | None = None) -> Iterator[Conversation]:
        """That many sessions, oldest first, which together have exactly that many messages.

        A fork is one of the sessions, and comes with the conversation that it leaves.
        """
        spans = self._spans(sessions, sessions * USUAL_LENGTH if messages is None else messages)
        for span in spans:
            forked = span.messages > FORKABLE and self._rng.random() < FORKED
            yield self._conversation(span, next(spans, None) if forked else None)

    def conversation(self, messages: int) -> Conversation:
        """One conversation of exactly so many messages, until now."""
        return self._conversation(Span(messages, self._now))

    def _spans(self, sessions: int, total: int) -> Iterator[Span]:
        # Two messages for each, and of the rest much for a few and little for many.
        least = min(2.0, total / sessions)
        weights = [self._rng.paretovariate(1.5) for _ in range(sessions)]
        scale = (total - least * sessions) / math.fsum(weights)
        shares = accumulate(least + weight * scale for weight in weights)
        ages = sorted((self._age() for _ in range(sessions)), reverse=True)
        given = 0
        for number, (share, age) in enumerate(zip(shares, ages, strict=True), 1):
            whole_turns = (int(share) - given) // 2 * 2
            count = whole_turns if number < sessions else total - given
            given += count
            yield Span(count, self._now - age)

    def _conversation(self, span: Span, fork: Span | None = None) -> Conversation:
        rng = self._rng
        speech = rng.choice(self._speeches)
        model = rng.choices(_MODELS, (50, 25, 20, 5))[0]
        maker = _TurnMaker(rng, speech, model)
        turns = tuple(maker.turns(span.messages, clock=span.began_at, until=span.ended_at))
        old = self._now - span.ended_at > 60 * DAY
        return Conversation(
            new=self._new_session(speech, model, span.began_at),
            turns=turns,
            messages=span.messages,
            pinned=rng.random() < 0.03,
            archived=old and rng.random() < 0.5,
            fork=None if fork is None else self._fork(turns, maker, span, fork),
        )

    def _fork(self, turns: Turns, maker: _TurnMaker, parent: Span, span: Span) -> Fork:
        """A fork after one of the turns, in the same voice."""
        lengths = (sum(isinstance(each, AddMessage) for each in turn) for turn in turns)
        made_at = max(parent.ended_at, span.began_at)
        return Fork(
            id=self._id(),
            at=self._rng.choice(list(accumulate(lengths))),
            made_at=made_at,
            turns=tuple(maker.turns(span.messages, clock=made_at, until=span.ended_at)),
            messages=span.messages,
        )

    def _id(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _age(self) -> int:
        """How long ago a conversation ended: minutes for some, months for a few."""
        return int(min(180 * DAY, 5 * MINUTE + self._rng.expovariate(1 / (25 * DAY))))

    def _new_session(self, speech: Speech, model: _Model, began_at: int) -> NewSession:
        rng = self._rng
        platform = rng.choices(_PLATFORMS, _PLATFORM_WEIGHTS)[0]
        kind, key, room = self._route(platform, speech)
        guest = kind == "group" and rng.random() < 0.3
        at_home = platform in ("cli", "cron")
        titled = rng.random() < 0.8
        return NewSession(
            id=self._id(),
            key=key,
            platform=platform,
            kind=kind,
            person=f"{platform}:{rng.randrange(1_000, 9_999)}" if guest else OWNER,
            title=speech.title() if titled else None,
            title_by=("user" if rng.random() < 0.1 else "auto") if titled else None,
            cwd=f"/home/ada/{speech.topic}" if at_home else None,
            project=f"/home/ada/{speech.topic}" if at_home else None,
            model=model.name,
            provider=model.provider,
            room=room,
            channel=None if at_home else platform,
            created_at=began_at,
        )

    def _route(self, platform: str, speech: Speech) -> tuple[Kind, str, str | None]:
        """The kind of a session, its key, and the room it is in."""
        number = self._rng.randrange(10_000, 99_999)
        match platform:
            case "cli":
                return "cli", f"cli:{speech.topic}", None
            case "web":
                return "web", f"agent:main:web:{number}", None
            case "cron":
                return "cron", f"cron:{speech.topic}-report", None
            case "email":
                return "thread", f"agent:main:email:thread:{number}", None
            case _ if self._rng.random() < 0.6:
                return "dm", f"agent:main:{platform}:dm:{number}", None
            case _:
                return "group", f"agent:main:{platform}:group:{number}", f"#{speech.topic}"


class _TurnMaker:
    """Makes the turns of one conversation, with a clock of its own."""

    def __init__(self, rng: random.Random, speech: Speech, model: _Model) -> None:
        self._rng = rng
        self._speech = speech
        self._model = model
        self._context = 600
        self._clock = self._until = 0

    def turns(self, messages: int, *, clock: int, until: int) -> Iterator[tuple[Change, ...]]:
        """Turns that together have exactly so many messages, from `clock` on."""
        self._clock, self._until = clock, until
        left = messages
        while left > 0:
            # Without a tool call a turn is two messages; each call adds two.
            calls = min(self._rng.choices((0, 1, 2, 3), (55, 25, 14, 6))[0], (left - 2) // 2)
            length = min(left, 2 + 2 * max(0, calls))
            yield self._turn(length)
            left -= length

    def _turn(self, length: int) -> tuple[Change, ...]:
        turn_id = f"{self._rng.getrandbits(64):016x}"
        asked = Draft(role="user", content=self._speech.ask(), at=self._tick())
        changes: list[Change] = [
            StartTurn(turn_id=turn_id, model=self._model.name, at=asked.at),
            AddMessage(asked, turn_id),
        ]
        if length == 1:
            error = "The provider did not answer in time."
            changes.append(EndTurn(turn_id=turn_id, status="failed", error=error, at=asked.at))
            return tuple(changes)
        spent = Usage()
        for step in range(length - 2, -1, -2):
            call = self._call() if step else None
            said = self._say(call)
            changes.append(AddMessage(said, turn_id))
            if said.usage is not None:
                spent += said.usage
            if call is not None:
                changes.append(AddMessage(self._result(call), turn_id))
        changes += (
            AddUsage(usage=spent, turn_id=turn_id, context_tokens=self._context),
            EndTurn(turn_id=turn_id, status="done", at=self._clock),
        )
        return tuple(changes)

    def _call(self) -> ToolCall:
        name = self._rng.choice(_TOOLS)
        return ToolCall(
            f"call_{self._rng.getrandbits(48):012x}", name, f'{{"path":"{self._speech.file()}"}}'
        )

    def _say(self, call: ToolCall | None) -> Draft:
        text = self._speech.answer() if call is None else self._speech.think()
        parts: tuple[dict[str, str], ...] = ()
        if self._rng.random() < 0.2:
            signature = f"{self._rng.getrandbits(96):024x}"
            parts = ({"type": "thinking", "text": self._speech.think(), "signature": signature},)
        return Draft(
            role="assistant",
            content=text,
            parts=parts,
            tool_calls=() if call is None else (call,),
            model=self._model.name,
            usage=self._spend(len(text)),
            at=self._tick(),
        )

    def _result(self, call: ToolCall) -> Draft:
        return Draft(
            role="tool",
            content=self._speech.output(),
            tool_call_id=call.id,
            tool_name=call.name,
            is_error=self._rng.random() < 0.04,
            at=self._tick(),
        )

    def _spend(self, characters: int) -> Usage:
        read, written = self._context, max(1, characters // 4)
        self._context = min(120_000, self._context + written + 60)
        cost = None
        if self._model.nanos_in is not None and self._model.nanos_out is not None:
            cost = read * self._model.nanos_in // 10 + written * self._model.nanos_out
        return Usage(read // 10, written, read - read // 10, 0, cost, 1)

    def _tick(self) -> int:
        self._clock = min(self._until, self._clock + self._rng.randrange(2_000, 3 * MINUTE))
        return self._clock


def load_phrases() -> dict[str, Any]:
    """The word lists."""
    return tomllib.loads((resources.files("clew.testing") / "phrases.toml").read_text("utf-8"))


class Speech:
    """What people, the agent and its tools say about one topic."""

    def __init__(
        self,
        rng: random.Random,
        *,
        topic: str,
        title: Callable[[], str],
        sentence: Callable[[str], str],
        detail: Callable[[], str],
        code: Sequence[str],
        files: Sequence[str],
        space: str = " ",
    ) -> None:
        self.topic = topic
        self.title = title
        self._random = rng.random
        self._asks = [sentence("user") for _ in range(POOL // 2)]
        self._answers = [sentence("assistant") for _ in range(POOL)]
        self._thoughts = [sentence("thoughts") for _ in range(POOL // 4)]
        self._detail = detail
        self._code = code
        self._files = files
        self._space = space

    def ask(self) -> str:
        """What a person writes: one to three sentences."""
        return self._paragraph(self._asks, 1 + self._number(3) * self._number(2))

    def think(self) -> str:
        """What the agent thinks before it speaks or calls a tool."""
        return self._draw(self._thoughts)

    def answer(self) -> str:
        """What the agent says: Markdown with paragraphs, now and then a list or code."""
        text = self._paragraph(self._answers, 3 + self._number(12))
        match self._number(16):
            case 0 | 1:
                items = [self._draw(self._answers) for _ in range(2 + self._number(4))]
                return text + "\n\n- " + "\n- ".join(items)
            case 2 | 3:
                block = "\n".join(self._draw(self._code) for _ in range(2 + self._number(6)))
                return f"{text}\n\n```python\n{block}\n```\n\n{self._draw(self._answers)}"
            case 4:
                return f"## {self.title()}\n\n{text}\n\n{self._paragraph(self._answers, 4)}"
            case _:
                return text

    def output(self) -> str:
        """What a tool prints: found lines, a text, or a test run."""
        count = 6 + self._number(34)
        match self._number(8):
            case 0 | 1 | 2 | 3:
                lines = (self._draw(self._code) for _ in range(count))
                return "\n".join(f"{self.file()}:{self._number(900)}: {line}" for line in lines)
            case 4 | 5 | 6:
                return self._paragraph(self._answers, count)
            case _:
                return f"{count * 7} passed, {count % 3} failed in {self._random() * 9:.2f}s"

    def file(self) -> str:
        """A file of the project."""
        return self._draw(self._files)

    def _paragraph(self, pool: Sequence[str], count: int) -> str:
        sentences = [self._draw(pool) for _ in range(count)]
        if self._random() < 0.12:
            sentences.append(self._detail())
        return self._space.join(sentences)

    def _draw(self, pool: Sequence[str]) -> str:
        return pool[int(self._random() * len(pool))]

    def _number(self, below: int) -> int:
        return int(self._random() * below)


def make_english(rng: random.Random, phrases: dict[str, Any], topic: dict[str, Any]) -> Speech:
    """A speech about one of the English topics."""
    things, acts = _common(rng, topic["things"]), _common(rng, topic["acts"])
    adjectives, reasons = _common(rng, phrases["adjectives"]), _common(rng, phrases["reasons"])

    def fill(template: str) -> str:
        return template.format(
            thing=things(),
            other=things(),
            name=things()[4:].replace(" ", "_"),
            other_name=things()[4:].replace(" ", "_"),
            act=acts(),
            act2=acts(),
            adjective=adjectives(),
            reason=reasons(),
            file=rng.choice(topic["files"]),
            number=rng.randrange(2, 100),
            number2=rng.randrange(100, 1000),
        )

    def sentence(kind: str) -> str:
        text = fill(rng.choice(phrases[kind]))
        return text[:1].upper() + text[1:]

    def detail() -> str:
        return str(rng.choice(phrases["details"])).format(
            ticket=f"{topic['name'][:3].upper()}-{rng.randrange(100_000)}",
            person=rng.choice(phrases["people"]),
            commit=f"{rng.getrandbits(28):07x}",
            number=rng.randrange(10_000),
            rare=rng.choice(phrases["rare"]),
        )

    return Speech(
        rng,
        topic=topic["name"],
        title=lambda: f"{acts().capitalize()} {things()}",
        sentence=sentence,
        detail=detail,
        code=[fill(rng.choice(phrases["code"])) for _ in range(POOL // 4)],
        files=topic["files"],
    )


def make_foreign(rng: random.Random, words: dict[str, Any]) -> Speech:
    """A speech in another language than English."""
    space: str = words["space"]
    thing = _common(rng, words["things"])
    parts = [_common(rng, words["beginnings"]), thing, _common(rng, words["predicates"])]
    ending = _common(rng, words["endings"])

    def sentence(_kind: str) -> str:
        return space.join(part() for part in parts) + ending()

    return Speech(
        rng,
        topic=words["name"],
        title=lambda: str(rng.choice(words["titles"])),
        sentence=sentence,
        detail=lambda: f"({thing()} #{rng.randrange(100_000)})",
        code=[f'print("{thing()}", {number})' for number in range(POOL // 4)],
        files=(f"{words['name']}/notes.md", f"{words['name']}/plan.txt"),
        space=space,
    )


def _common(rng: random.Random, words: Sequence[str]) -> Callable[[], str]:
    """Draw from a list whose first entries are the common ones: the n-th comes 1/n as often."""
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return lambda: rng.choices(words, cum_weights=weights)[0]


async def load(
    store: Store,
    conversations: Iterator[Conversation],
    *,
    at_once: int = 32,
    progress: Callable[[int], None] = lambda _: None,
    clock: FakeClock | None = None,
) -> None:
    """Write conversations, several at once so that they share commits; then their forks.

    `progress` is called with the number of messages after each session. A fork has its own time
    where the store uses `clock`; in other stores it was made just now.
    """
    forks: list[tuple[str, Fork]] = []

    async def write() -> None:
        for conversation in conversations:
            session_id = await _write(store, conversation)
            progress(conversation.messages)
            if conversation.fork is not None:
                forks.append((session_id, conversation.fork))

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(write())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None  # what stops one stops all
    clock = clock or FakeClock()
    now = clock.now
    for parent_id, fork in forks:
        clock.now = fork.made_at
        made = await store.fork_session(parent_id, at=fork.at, new_id=fork.id)
        await _write_turns(store, made.id, fork.turns)
        progress(fork.messages)
    clock.now = now


async def _write(store: Store, conversation: Conversation) -> str:
    session = await store.create_session(conversation.new)
    await _write_turns(store, session.id, conversation.turns)
    if conversation.pinned or conversation.archived:
        edit = SessionEdit(pinned=conversation.pinned, archived=conversation.archived)
        await store.edit_session(session.id, edit)
    return session.id


async def _write_turns(store: Store, session_id: str, turns: Turns) -> None:
    lease = await store.acquire_lease(session_id, "corpus")
    changes: list[Change] = []
    for turn in turns:
        changes += turn
        if len(changes) >= RECORD:
            await store.record(session_id, lease.epoch, *changes)
            changes.clear()
    if changes:
        await store.record(session_id, lease.epoch, *changes)
    await store.release_lease(lease)
