"""What every tool consists of: its arguments, its function, and the job it is given.

A tool knows no model and no loop. It returns text for the model, or raises `ToolFailure` with a
message for it. Whether it may run is asked with `Job.permit`, the only way to ask the owner.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from clew.agent.tool_interface import ToolOutcome, ToolSpec
from clew.core.message import ToolCall
from clew.core.models import Personality
from clew.core.rules import ALLOWED
from clew.core.text import reveal_controls, strip_controls
from clew.core.tokens import has_own_tools
from clew.core.tool_rules import READING, judge, parse_rule, rule_for
from clew.core.turn import UNASKED, Approval
from clew.errors import InvalidInput
from clew.ports import LiveTurn, Memory, Store

MAX_DETAIL = 10_000
"""Most characters of a question to the owner; the middle of a longer one is left out."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner has configured, as plain values.

    `environment` is the whole environment of this process: the shell gets the harmless part of it
    and what `pass_environment` names. `workspace` is for sessions without a directory. `sealed` are
    files and directories of clew itself, which no tool opens; `opened` is the one directory below
    them that tools may use. `find_doubt` says what a session's directories are (the whole disk, a
    home) if nobody has said that they are a workspace: then there are no tools for files.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    timeout: float = 120.0
    max_timeout: float = 600.0
    max_output: int = 30_000
    memory_guests: Literal["read", "none"] = "read"
    environment: dict[str, str] = {}
    pass_environment: tuple[str, ...] = ()
    workspace: str | None = None
    sealed: tuple[str, ...] = ()
    opened: str | None = None
    find_doubt: Callable[..., str | None] = lambda *_directories: None


class ToolFailure(Exception):
    """A call that failed. The message is for the model."""


class TurnNotes:
    """What the tools remember of a turn while it runs."""

    def __init__(self) -> None:
        self.granted: set[str] = set()
        self.scratch: set[str] = set()
        self.mode: str | None = None
        self.images = True
        self.asking = asyncio.Lock()


class Job:
    """One call of one tool: who asked, what may be done, and the ports to do it with."""

    def __init__(
        self,
        *,
        call: ToolCall,
        turn: LiveTurn,
        personality: Personality,
        policy: Policy,
        store: Store,
        memory: Memory,
        notes: TurnNotes,
        always: set[str],
    ) -> None:
        self.call = call
        self.turn = turn
        self.personality = personality
        self.policy = policy
        self.store = store
        self.memory = memory
        self.notes = notes
        self._always = always

    @property
    def mode(self) -> str | None:
        """The session's mode, as this turn may have changed it."""
        return self.notes.mode or self.turn.session.mode

    async def permit(
        self, arguments: dict[str, Any], *, summary: str, detail: str = "", **more: Any
    ) -> bool:
        """Make sure that the call may run, asking the owner if necessary; else `ToolFailure`.

        Returns whether the owner was asked. `arguments` are those that rules look at (`judge`).
        """
        if self._judge(arguments) == "allow":
            return False
        # One question at a time; the answer to the one before may be the answer to this one.
        async with self.notes.asking:
            if self._judge(arguments) == "allow":
                return False
            rule = rule_for(self.call.name, arguments)
            request = {
                "summary": strip_controls(reveal_controls(summary), keep_newlines=False)[:500],
                "detail": show_detail(detail),
                "rule": rule,
                "cwd": self.turn.session.cwd,
                **more,
            }
            approval = await self.turn.ask(self.call, request)
            await self._apply_answer(approval, rule)
        return True

    def _judge(self, arguments: dict[str, Any]) -> str:
        name = self.call.name
        allow = (*self.policy.allow, *session_rules(self.turn), *self.notes.granted, *self._always)
        verdict = judge(name, arguments, self.mode, allow, self.policy.deny)
        if verdict == "deny":
            why = "Plan mode changes nothing" if self.mode == "plan" else "A rule forbids this"
            raise ToolFailure(f"{why}: {name} was not run. Tell the person if it is needed.")
        return verdict

    async def _apply_answer(self, approval: Approval, rule: str | None) -> None:
        if approval.decision != "yes":
            if approval.decided_by == "expired":
                raise ToolFailure("The owner did not answer in time, so it was not done.")
            if approval.decided_by == "nobody":
                raise ToolFailure(UNASKED)
            if approval.reason:
                raise ToolFailure(f'The owner said no, so it was not done: "{approval.reason}"')
            raise ToolFailure(
                "The owner said no, so it was not done. Don't try it in another way; "
                "go on without it, or ask what they would like instead."
            )
        if rule is None or approval.scope not in ("session", "always"):
            return
        always = approval.scope == "always"
        (self._always if always else self.notes.granted).add(rule)
        await self.turn.allow(rule, always=always)


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool. `machine`: it touches the machine, so guests do not get it.

    `files`: it works on the files of a workspace. `special` tools are offered only to personalities
    that name them.
    """

    name: str
    arguments: type[msgspec.Struct]
    function: Callable[[Job, Any], Awaitable[ToolOutcome | str]]
    machine: bool = False
    files: bool = False
    special: bool = False

    @property
    def spec(self) -> ToolSpec:
        """The tool as it is described to the model, by the docstring of its function."""
        return ToolSpec(
            name=self.name,
            description=inspect.cleandoc(self.function.__doc__ or ""),
            schema=make_schema(self.arguments),
            parallel=self.name in READING,
        )


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments that a model gives to a tool."""


@functools.cache  # every turn needs all of them, and making them is the larger part of the work
def make_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, without references: some providers follow none."""
    whole = msgspec.json.schema(arguments)
    definitions = whole.pop("$defs", {})
    schema: dict[str, Any] = _inline(whole, definitions)
    for extra in ("title", "description"):
        schema.pop(extra, None)
    return schema


def _inline(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        rest = {name: value for name, value in node.items() if name != "$ref"}
        node = definitions[reference.removeprefix("#/$defs/")] | rest
    if all(isinstance(each, str) for each in node.get("enum", [0])):
        node = {"type": "string"} | node  # some providers require it
    return {name: _inline(value, definitions) for name, value in node.items()}


def read_arguments(tool: Tool, text: str) -> Any:
    """The arguments as a value, or `ToolFailure` that says what is wrong with them."""
    try:
        return msgspec.convert(msgspec.json.decode(text or "{}"), tool.arguments, strict=False)
    except msgspec.DecodeError as error:
        raise ToolFailure(
            f"The arguments of {tool.name} are wrong: {error}. Call it again as its schema says."
        ) from None


def session_rules(turn: LiveTurn) -> tuple[str, ...]:
    """The rules that were allowed for this session; unreadable ones are ignored."""
    kept = turn.session.metadata.get(ALLOWED)
    return tuple(rule for rule in kept if _is_rule(rule)) if isinstance(kept, list) else ()


def _is_rule(rule: object) -> bool:
    try:
        return isinstance(rule, str) and bool(parse_rule(rule))
    except InvalidInput:
        return False


def is_owner(turn: LiveTurn) -> bool:
    """Whether the turn has the owner's tools; every other one has a guest's."""
    return has_own_tools(turn.person, turn.scopes)


def show_detail(text: str) -> str:
    """The detail of a question: bounded, with escapes for what a reader could not see."""
    shown = reveal_controls(text)
    note = "" if shown == text else "\n[\\x85 and the like are control or invisible characters.]"
    return shorten(shown, MAX_DETAIL) + note


def shorten(text: str, limit: int) -> str:
    """The beginning and the end of a text that is longer than the limit, with a note between."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n[… {len(text) - limit:,} characters left out …]\n{text[-tail:]}"
