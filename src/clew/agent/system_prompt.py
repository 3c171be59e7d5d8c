"""The system prompt of a turn, and the sizes of what surrounds the thread (for `/context`).

The prompt is made of named parts, read at the beginning of every turn: personality,
environment, project instructions (AGENTS.md), memory, todo list, scratchpad. Which messages of the
thread a model sees is decided in `requests`. Directories are only read; git is never run.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from clew.agent.memory_flush import SilentTurn
from clew.agent.personalities import choose_model
from clew.agent.tool_interface import Toolbox, ToolSpec
from clew.agent.tools.paths import open_regular
from clew.core.channels.speech import find_instructions
from clew.core.context.size import ContextPart, estimate_text, estimate_tool
from clew.core.live_events import Notice
from clew.core.memory import FILE_NAMES, MEMORY_NAMES
from clew.core.message import Message
from clew.core.models import ModelInfo, Personality
from clew.core.names import format_bytes
from clew.core.notes import ScratchEntry, Todo
from clew.core.session import OWNER, Session
from clew.core.text import strip_controls
from clew.core.tokens import Scopes, has_own_tools
from clew.errors import ClewError
from clew.files.directories import find_repository
from clew.ports import Clock, LiveTurn, Memory, Notes, Personalities, Recall

if TYPE_CHECKING:
    from clew.agent.requests import Catalogue

MAX_MEMORY = 20_000
RECENT: Final = 50
"""Messages that are looked at for what the person said."""
MAX_LISTED = 100
"""Most scratchpad entries that are listed by name."""

EMBEDDED_SOUL = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""The prompt that it was trained with, to the letter: with others it answers fewer questions right
(`python -m benchmarks.trivia`)."""

PLAN = """\
Plan mode is on: look, think and propose, but change nothing. Tools that change things are absent.
When the plan is complete and rests on what you have seen, call propose_plan with it. If the person
says yes, you carry it out; until then you only talk about it."""

PAUSED = "A plan was approved in this session and plan mode is paused: carry the plan out."

ASKED: Final = "# Instructions for this turn, from the program through which the person talks"
INSTRUCTIONS: Final = "AGENTS.md"
MAX_INSTRUCTIONS: Final = 20_000
_CUT: Final = "\n[… the rest is cut …]"


class Part(msgspec.Struct, frozen=True):
    """A named piece of the prompt. `source` says where it comes from, if that is a file."""

    name: str
    text: str
    source: str | None = None


class SystemPrompt:
    """Builds the system prompt of a turn; `build_prompt` is what the loop is given."""

    def __init__(
        self,
        memory: Memory,
        notes: Notes,
        clock: Clock,
        *,
        tz: tzinfo = UTC,
        guests: Literal["read", "none"] = "read",
        recall: Recall | None = None,
    ) -> None:
        """With `recall`, the prompt gets what of the memory fits the message, not all of it."""
        self._memory = memory
        self._notes = notes
        self._clock = clock
        self._tz = tz
        self._guests = guests
        self._recall = recall

    async def build_prompt(self, turn: LiveTurn, personality: Personality, model: ModelInfo) -> str:
        """The whole prompt."""
        asked = await _find_asked(turn)
        parts = await self.list_parts(
            turn.session,
            turn.person,
            turn.scopes,
            personality,
            model,
            question="\n".join(each.content for each in asked if each.content),
            tell=lambda text: turn.signal(Notice(text)),
        )
        # Those of an older message hold no longer.
        wishes = (find_instructions(each.parts) for each in asked if each.turn_id == turn.id)
        own = [strip_controls(each).strip() for each in wishes if each]
        return "\n\n".join([*(part.text for part in parts), *([ASKED, *own] if own else [])])

    async def list_parts(
        self,
        session: Session,
        person: str,
        scopes: Scopes,
        personality: Personality,
        model: ModelInfo,
        *,
        question: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> tuple[Part, ...]:
        """The parts of the prompt, in order, without empty ones.

        `question` is what the person says: in vector mode it chooses what the prompt gets of the
        memory. `tell` is called with what the person should know about that.
        """
        if model.embedded:
            return (Part("personality", EMBEDDED_SOUL),)
        soul = personality.soul or f"You are clew, working as {personality.name}."
        has_tools = has_own_tools(person, scopes)
        environment = await self._environment(session, person, has_tools=has_tools)
        parts = [Part("personality", soul), environment]
        mode = {"plan": PLAN, "plan_paused": PAUSED}.get(session.mode or "")
        if mode:
            parts.append(Part("mode", mode))
        if has_tools and session.cwd:
            parts += await self._instructions(session.cwd, session.project)
        if person == OWNER or self._guests == "read":
            if self._recall is None:
                parts += await self._memories(personality, person)
            else:
                found = await self._recall.search(question, personality, person=person)
                parts += [Part("memory", found.prompt)] if found.prompt else []
                if found.notice is not None:
                    tell(found.notice)
        parts += _show_notes(
            await self._notes.get_todos(session.id), await self._notes.list_scratch(session.id)
        )
        return tuple(parts)

    async def _environment(self, session: Session, person: str, *, has_tools: bool) -> Part:
        today = datetime.fromtimestamp(self._clock() / 1000, self._tz)
        lines = [f"Date: {today:%A, %Y-%m-%d} ({today.tzname()})"]
        # Who has no tools for the machine learns nothing about it.
        if has_tools:
            lines.append(f"Platform: {platform.system()} {platform.machine()}")
            if session.cwd:
                lines.append(f"Working directory: {_line(session.cwd)}")
                branch = await asyncio.to_thread(find_branch, Path(session.cwd))
                if branch:
                    lines.append(f"Git branch: {_line(branch)}")
        channel = f" ({_line(session.channel)})" if session.channel else ""
        lines.append(f"Channel: {_line(session.platform)}{channel}")
        if person != OWNER:
            lines.append(f"You are talking with a guest, {_line(person)}, not with your owner.")
        return Part("environment", "# Environment\n" + "\n".join(lines))

    async def _instructions(self, cwd: str, project: str | None) -> list[Part]:
        found = await asyncio.to_thread(
            list_instructions, Path(cwd), Path(project) if project else None
        )
        return [
            Part(
                "instructions",
                f"# Project instructions from {path}\n{strip_controls(text).strip()}",
                str(path),
            )
            for path, text in found
        ]

    async def _memories(self, personality: Personality, person: str) -> list[Part]:
        parts = []
        for name in MEMORY_NAMES:
            title = f"# Memory: {FILE_NAMES[name]}"
            try:
                found = await self._memory.read(name, personality, person=person)
            except ClewError as error:
                # A file that can't be read must not stop the turn; the agent can tell the person.
                parts.append(Part(FILE_NAMES[name], f"{title}\n[It could not be read: {error}]"))
                continue
            text = keep_tail(strip_controls(found.text).strip(), MAX_MEMORY)
            if text:
                parts.append(Part(FILE_NAMES[name], f"{title}\n{text}", found.path))
        return parts


async def _find_asked(turn: LiveTurn) -> list[Message]:
    """What the person said in this turn, else what was said last."""
    rows = [row for row in await turn.get_thread(RECENT) if row.role == "user"]
    return [row for row in rows if row.turn_id == turn.id] or rows[-1:]


def keep_tail(text: str, limit: int) -> str:
    """The end of a text that is too long, from the beginning of a line, with a mark in front."""
    if len(text) <= limit:
        return text
    mark = "[… the beginning is cut …]\n"
    tail = text[len(text) - limit + len(mark) :]
    _, newline, whole_lines = tail.partition("\n")
    return mark + (whole_lines if newline and whole_lines else tail)


def _show_notes(todos: tuple[Todo, ...], entries: tuple[ScratchEntry, ...]) -> list[Part]:
    parts = []
    if todos:
        lines = [f"- [{todo.status}] {_line(todo.text)}" for todo in todos]
        parts.append(Part("todos", "# Todo list\n" + "\n".join(lines)))
    if entries:
        lines = [f"- {_line(entry.name)} ({format_bytes(entry.size)})" for entry in entries]
        if len(lines) > MAX_LISTED:
            lines[MAX_LISTED:] = [f"- and {len(lines) - MAX_LISTED} more (scratchpad_list)"]
        parts.append(Part("scratchpad", "# Scratchpad entries\n" + "\n".join(lines)))
    return parts


def _line(text: str) -> str:
    return strip_controls(text, keep_newlines=False)


def find_branch(directory: Path) -> str | None:
    """The branch that is checked out, or the beginning of the commit; None outside of git."""
    try:
        root = find_repository(directory.resolve())
        if root is None:
            return None
        git = root / ".git"
        if git.is_file():  # a worktree or a submodule
            _, _, named = _read(git).partition("gitdir:")
            git = root / named.strip()
        head = _read(git / "HEAD").strip()
    except (OSError, RuntimeError, ValueError):
        return None
    if head.startswith("ref:"):
        return head.removeprefix("ref:").strip().removeprefix("refs/heads/") or None
    return head[:12] or None


def list_instructions(cwd: Path, project: Path | None = None) -> list[tuple[Path, str]]:
    """The AGENTS.md files from the repository's root down to a directory, with their texts.

    Together at most `MAX_INSTRUCTIONS` characters; the nearest files are cut last. A link that
    leads out of the repository is not followed.
    """
    try:
        cwd = cwd.resolve()
        root = find_repository(cwd) or (project.resolve() if project else cwd)
    except (OSError, RuntimeError):
        return []
    if not cwd.is_relative_to(root):
        root = cwd
    way = [each for each in (cwd, *cwd.parents) if each.is_relative_to(root)]
    room = MAX_INSTRUCTIONS
    found: list[tuple[Path, str]] = []
    for directory in way:
        path = directory / INSTRUCTIONS
        try:
            real = path.resolve()
            text = _read(real) if real.is_relative_to(root) else ""
        except (OSError, RuntimeError):
            continue
        if not text.strip() or room <= len(_CUT):
            continue
        kept = text if len(text) <= room else text[: room - len(_CUT)] + _CUT
        room -= len(kept)
        found.append((path, kept))
    return found[::-1]


def _read(path: Path) -> str:
    """The beginning of a regular file."""
    with os.fdopen(open_regular(path.resolve()), "rb") as file:
        return file.read(4 * MAX_INSTRUCTIONS + 4).decode("utf-8", "replace")


class ContextParts:
    """`ports.Context`: the parts of the prompt and the tools, with their sizes."""

    def __init__(
        self,
        *,
        catalogue: Catalogue,
        personalities: Personalities,
        toolbox: Toolbox,
        prompt: SystemPrompt,
    ) -> None:
        self._catalogue = catalogue
        self._personalities = personalities
        self._toolbox = toolbox
        self._prompt = prompt

    async def list_parts(
        self, session: Session, person: str, scopes: Scopes
    ) -> tuple[ContextPart, ...]:
        """See `ports.Context`."""
        info = choose_model(self._catalogue, self._personalities, session)
        personality = self._personalities.choose_personality(session)
        parts = await self._prompt.list_parts(session, person, scopes, personality, info)
        prompts = [
            ContextPart("prompt", part.name, estimate_text(part.text), part.source)
            for part in parts
        ]
        turn = SilentTurn(msgspec.structs.replace(session, person=person), (), scopes=scopes)
        return (*prompts, *_tools(await self._list_tools(turn, personality, info)))

    async def _list_tools(
        self, turn: SilentTurn, personality: Personality, info: ModelInfo
    ) -> Sequence[ToolSpec]:
        if info.embedded or not info.tools:
            return ()
        return await self._toolbox.list_tools(turn, personality, info)


def _tools(specs: Sequence[ToolSpec]) -> list[ContextPart]:
    return [
        ContextPart("tool", each.name, estimate_tool(each.name, each.description, each.schema))
        for each in specs
    ]
