"""Tools that read and write files."""

from __future__ import annotations

import asyncio
import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from clew.agent.tool_interface import ToolOutcome
from clew.agent.tools.output import read_page
from clew.agent.tools.paths import (
    ResolvedPath,
    locate,
    open_regular,
    read_bytes,
    write_atomic,
)
from clew.agent.tools.search_process import HEAD, PRIVATE_KEY
from clew.agent.tools.tool import Arguments, Job, Tool, ToolFailure
from clew.core.notes import find_picture_type

MAX_IMAGE = 5_000_000
MAX_TEXT = 10_000_000

PathArgument = Annotated[
    str,
    Meta(min_length=1, max_length=4096, description="Relative to the session's directory."),
]


class ReadFile(Arguments, frozen=True):
    """A page of a file."""

    path: PathArgument
    offset: Annotated[int, Meta(ge=1, description="The first line to show.")] = 1
    limit: Annotated[int, Meta(ge=1, le=5000, description="How many lines at most.")] = 2000


class WriteFile(Arguments, frozen=True):
    """A whole file."""

    path: PathArgument
    content: Annotated[str, Meta(description="The whole new content.")]


class EditFile(Arguments, frozen=True):
    """A replacement."""

    path: PathArgument
    old: Annotated[str, Meta(min_length=1, description="The exact text to replace.")]
    new: Annotated[str, Meta(description="What takes its place.")]
    replace_all: Annotated[bool, Meta(description="Every occurrence, not just a single one.")] = (
        False
    )


async def read_file(job: Job, given: ReadFile) -> ToolOutcome | str:
    """Read a text file, or look at an image (PNG, JPEG, GIF, WebP).

    Each line comes with its number and a tab before it; neither is part of the file.
    """
    place = await reach(job, given.path, is_private_key)
    try:
        kind = await asyncio.to_thread(find_image_type, place.real)
        if kind is not None:
            return await _show_image(job, place, kind)
        limit = job.policy.max_output
        return await asyncio.to_thread(read_page, place.real, given.offset, given.limit, limit)
    except OSError as error:
        raise ToolFailure(_explain(place, error)) from None


async def write_file(job: Job, given: WriteFile) -> str:
    """Write a whole text file, making it and its directories if they do not exist.

    For a change to an existing file, edit_file is better. The person may be asked first.
    """
    place = locate(job, given.path)
    if not place.is_open:
        await _ask(job, place, "Write", given.content)
    before = await asyncio.to_thread(_find_text, place)
    return await _put(job, place, before, given.content)


async def edit_file(job: Job, given: EditFile) -> str:
    """Replace an exact piece of a text file.

    The piece must occur once, white space included (give more of its surroundings otherwise), or
    set replace_all. Read the file first. The person may be asked first.
    """
    place = locate(job, given.path)
    if not place.is_open:
        # Asked before anything is looked at: even "not found" would tell what is in the file.
        pieces = (f"{each}\n" for each in (given.old, given.new))
        await _ask(job, place, "Change", _difference(place.shown, *pieces))
    before = await asyncio.to_thread(_find_text, place)
    if before is None:
        raise ToolFailure(f"{place.shown} does not exist. write_file makes a new file.")
    old, new = given.old, given.new
    if old not in before and "\r\n" in before:
        # The model saw the lines without their carriage returns.
        old, new = (text.replace("\r\n", "\n").replace("\n", "\r\n") for text in (old, new))
    count = before.count(old)
    if not count:
        raise ToolFailure(f"The text was not found in {place.shown}. Read the file again.")
    if count > 1 and not given.replace_all:
        raise ToolFailure(
            f"The text occurs {count} times in {place.shown}. "
            "Give more of what surrounds it, or set replace_all."
        )
    return await _put(job, place, before, before.replace(old, new))


async def reach(
    job: Job, path: str, is_secret: Callable[[Path], bool] = lambda _: False
) -> ResolvedPath:
    """Locate a file to read; the owner is asked if it is not open (`ResolvedPath.is_open`).

    `is_secret` looks into the file for what its name does not tell.
    """
    place = locate(job, path)
    if place.is_open and await asyncio.to_thread(is_secret, place.real):
        place = msgspec.structs.replace(place, secret=True)
    await job.permit(
        _judged(place),
        summary=f"{job.call.name}{_describe(place)}: {place.shown}",
        detail=place.shown,
        path=place.shown,
    )
    return place


def _judged(place: ResolvedPath) -> dict[str, Any]:
    """What rules look at."""
    return {"path": place.shown, "secret": place.secret}


def _describe(place: ResolvedPath) -> str:
    """Why it is asked about, in a summary."""
    if place.secret:
        return " that may hold secrets" if place.inside else " outside, that may hold secrets"
    return "" if place.inside else " outside the workspace"


def is_private_key(real: Path) -> bool:
    """Whether a file holds a private key, whatever its name is."""
    try:
        with os.fdopen(open_regular(real), "rb") as file:
            return PRIVATE_KEY.search(file.read(HEAD)) is not None
    except OSError:
        return False


async def _put(job: Job, place: ResolvedPath, before: str | None, after: str) -> str:
    """Show the difference and ask, then write, unless the file has changed since it was read."""
    if before == after:
        return f"{place.shown} already has this content; nothing was changed."
    asked = False
    if place.is_open:
        verb = "Create" if before is None else "Change"
        asked = await _ask(job, place, verb, _difference(place.shown, before, after))
    try:
        if asked and await asyncio.to_thread(_find_text, place) != before:
            raise ToolFailure(
                f"{place.shown} was changed by another program, so it was left as it is. "
                "Read it again."
            )
        await asyncio.to_thread(write_atomic, place.real, after.encode("utf-8", "replace"))
    except OSError as error:
        raise ToolFailure(_explain(place, error)) from None
    added, removed = _count_lines(before or "", after)
    size = len(_split(after))
    if before is None:
        return f"Created {place.shown}: {size} lines."
    return f"Changed {place.shown}: {added} lines added, {removed} removed; {size} in all."


async def _ask(job: Job, place: ResolvedPath, verb: str, detail: str) -> bool:
    summary = f"{verb} a file{_describe(place)}: {place.shown}"
    return await job.permit(_judged(place), summary=summary, detail=detail, path=place.shown)


def _find_text(place: ResolvedPath) -> str | None:
    """The file's text exactly as it is, None if there is no file."""
    try:
        return read_bytes(place.real, MAX_TEXT).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ToolFailure(
            f"{place.shown} is not UTF-8 text, so it can't be changed here."
        ) from None
    except OSError as error:
        raise ToolFailure(_explain(place, error)) from None


def find_image_type(real: Path) -> str | None:
    """The media type of an image that models can look at, by how the file begins."""
    with os.fdopen(open_regular(real), "rb") as file:
        return find_picture_type(file.read(12))


async def _show_image(job: Job, place: ResolvedPath, kind: str) -> ToolOutcome:
    if not job.notes.images:
        raise ToolFailure(f"{place.shown} is an image, and this model can't look at images.")
    data = await asyncio.to_thread(read_bytes, place.real, MAX_IMAGE)
    blob = await job.store.put_blob(data, kind)
    return ToolOutcome(
        content=f"{place.shown}: {kind}, {len(data):,} bytes.",
        parts=({"type": "image", "blob": blob, "media_type": kind},),
    )


def _difference(path: str, before: str | None, after: str) -> str:
    name = path.replace("\n", "\\n")  # a name must not look like a line of the difference
    old, new = _split(before or ""), _split(after)
    if len(old) + len(new) > 5_000:
        return f"{len(old)} lines become {len(new)}:\n{after}"
    lines = difflib.unified_diff(
        old, new, f"a/{name}" if old else "/dev/null", f"b/{name}", "", "", 3, ""
    )
    return "\n".join(lines)


def _split(text: str) -> list[str]:
    """The lines of a file: a line feed ends one, and nothing else does."""
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines


def _count_lines(before: str, after: str) -> tuple[int, int]:
    old, new = _split(before), _split(after)
    if len(old) + len(new) > 20_000:
        return max(len(new) - len(old), 0), max(len(old) - len(new), 0)
    marks = [line[0] for line in difflib.unified_diff(old, new, "", "", "", "", 0, "")][2:]
    return marks.count("+"), marks.count("-")


def _explain(place: ResolvedPath, error: OSError) -> str:
    return f"{place.shown}: {(error.strerror or str(error)).lower()}."


TOOLS = (
    Tool(name="read_file", arguments=ReadFile, function=read_file, machine=True, files=True),
    Tool(name="write_file", arguments=WriteFile, function=write_file, machine=True, files=True),
    Tool(name="edit_file", arguments=EditFile, function=edit_file, machine=True, files=True),
)
