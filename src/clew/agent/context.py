"""The system prompt: who the agent is, where it is, and what it should know before it reads on.

Made of named parts, read fresh once at the beginning of a turn. The thread itself, and what of it a
model gets to see, is not decided here.
"""

from __future__ import annotations

import asyncio
import platform
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Literal

import msgspec

from clew.agent import projects
from clew.core.memory import FILE_NAMES, MEMORY_NAMES
from clew.core.models import ModelInfo
from clew.core.names import format_bytes
from clew.core.notes import ScratchEntry, Todo
from clew.core.personality import Personality
from clew.core.session import OWNER, Session
from clew.core.text import strip_controls
from clew.errors import ClewError
from clew.ports import Clock, LiveTurn, Memory, Notes

MAX_MEMORY = 20_000
MAX_LISTED = 100
"""Most scratchpad entries that are named."""

EMBEDDED_SOUL = "You are clew, a friendly assistant.\nAnswer briefly and truthfully."
"""A tiny model reads slowly and gets lost in more."""

PLAN = """\
Plan mode is on: look, think and propose, but change nothing. Tools that change things are absent.
When the plan is complete and rests on what you have seen, call propose_plan with it. If the person
says yes, you carry it out; until then you only talk about it."""

PAUSED = "A plan was approved in this session and plan mode is paused: carry the plan out."


class Part(msgspec.Struct, frozen=True):
    """A named piece of the prompt. `source` says where it comes from, if that is a file."""

    name: str
    text: str
    source: str | None = None

    @property
    def size(self) -> int:
        """Characters."""
        return len(self.text)


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
    ) -> None:
        self._memory = memory
        self._notes = notes
        self._clock = clock
        self._tz = tz
        self._guests = guests

    async def build_prompt(self, turn: LiveTurn, personality: Personality, model: ModelInfo) -> str:
        """The whole prompt."""
        parts = await self.list_parts(turn.session, turn.person, personality, model)
        return "\n\n".join(part.text for part in parts)

    async def list_parts(
        self, session: Session, person: str, personality: Personality, model: ModelInfo
    ) -> tuple[Part, ...]:
        """What the prompt consists of, in order; nothing that is empty."""
        if model.embedded:
            return (Part("personality", EMBEDDED_SOUL),)
        soul = personality.soul or f"You are clew, working as {personality.name}."
        parts = [Part("personality", soul), await self._environment(session, person)]
        mode = {"plan": PLAN, "plan_paused": PAUSED}.get(session.mode or "")
        if mode:
            parts.append(Part("mode", mode))
        if person == OWNER and session.cwd:
            parts += await self._instructions(session.cwd, session.project)
        if person == OWNER or self._guests == "read":
            parts += await self._memories(personality)
        parts += _show_notes(
            await self._notes.get_todos(session.id), await self._notes.list_scratch(session.id)
        )
        return tuple(parts)

    async def _environment(self, session: Session, person: str) -> Part:
        today = datetime.fromtimestamp(self._clock() / 1000, self._tz)
        lines = [f"Date: {today:%A, %Y-%m-%d} ({today.tzname()})"]
        # What the machine looks like is the owner's affair.
        if person == OWNER:
            lines.append(f"Platform: {platform.system()} {platform.machine()}")
            if session.cwd:
                lines.append(f"Working directory: {_line(session.cwd)}")
                branch = await asyncio.to_thread(projects.find_branch, Path(session.cwd))
                if branch:
                    lines.append(f"Git branch: {_line(branch)}")
        channel = f" ({_line(session.channel)})" if session.channel else ""
        lines.append(f"Channel: {_line(session.platform)}{channel}")
        if person != OWNER:
            lines.append(f"You are talking with a guest, {_line(person)}, not with your owner.")
        return Part("environment", "# Environment\n" + "\n".join(lines))

    async def _instructions(self, cwd: str, project: str | None) -> list[Part]:
        found = await asyncio.to_thread(
            projects.list_instructions, Path(cwd), Path(project) if project else None
        )
        return [
            Part(
                "instructions",
                f"# Project instructions from {path}\n{strip_controls(text).strip()}",
                str(path),
            )
            for path, text in found
        ]

    async def _memories(self, personality: Personality) -> list[Part]:
        parts = []
        for name in MEMORY_NAMES:
            title = f"# Memory: {FILE_NAMES[name]}"
            try:
                found = await self._memory.read(name, personality)
            except ClewError as error:
                # A file that can't be read must not silence the agent; it can tell the person.
                parts.append(Part(FILE_NAMES[name], f"{title}\n[It could not be read: {error}]"))
                continue
            text = keep_tail(strip_controls(found.text).strip(), MAX_MEMORY)
            if text:
                parts.append(Part(FILE_NAMES[name], f"{title}\n{text}", found.path))
        return parts


def keep_tail(text: str, limit: int) -> str:
    """The end of a text that is too long, from the beginning of a line, with a mark before it."""
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
