"""Tools that find files by name and by content. `search_process` does it, in a child process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from clew.agent.tools import search_process
from clew.agent.tools.files import PathArgument, reach
from clew.agent.tools.paths import ResolvedPath, get_workspace
from clew.agent.tools.processes import clean_environment, run_process
from clew.agent.tools.tool import Arguments, Job, Tool, ToolFailure
from clew.core.names import counted
from clew.core.tool_rules import CONFIDENTIAL

SECONDS = 20.0


class ListFiles(Arguments, frozen=True):
    """Files by name."""

    path: PathArgument = "."
    glob: Annotated[
        str, Meta(max_length=300, description="Such as **/*.py or docs/*.md; empty for all.")
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    ignored: Annotated[bool, Meta(description="Also what .gitignore leaves out.")] = False


class SearchFiles(Arguments, frozen=True):
    """Lines by content."""

    pattern: Annotated[str, Meta(min_length=1, max_length=1000, description="What to look for.")]
    path: PathArgument = "."
    glob: Annotated[str, Meta(max_length=300, description="Only files such as *.py.")] = ""
    regex: Annotated[
        bool, Meta(description="Whether the pattern is a regular expression, not plain text.")
    ] = False
    ignore_case: bool = False
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    ignored: Annotated[bool, Meta(description="Also what .gitignore leaves out.")] = False


async def list_files(job: Job, given: ListFiles) -> str:
    """List the files below a directory, optionally those that fit a glob.

    What git ignores is left out, and symbolic links are not followed.
    """
    place = await reach(job, given.path)
    rows, end = await _seek(job, place, given, pattern=None, regex=False, ignore_case=False)
    lines = [_name(given.path, row[0]) for row in rows]
    if not lines:
        return "No files."
    if end["more"]:
        lines.append(f"[More than {given.limit}: narrow it with a glob or a directory.]")
    return "\n".join(lines)


async def search_files(job: Job, given: SearchFiles) -> str:
    """Find lines in the files below a directory (or in one file) by text or regular expression.

    What git ignores, binary files and files over 5 MB are left out, and so are files that may hold
    secrets, such as .env: name one of those as the path, and the person is asked.
    """
    place = await reach(job, given.path)
    rows, end = await _seek(
        job, place, given, pattern=given.pattern, regex=given.regex, ignore_case=given.ignore_case
    )
    lines = [f"{_name(given.path, path)}:{number}: {line}" for path, number, line in rows]
    if not lines:
        lines.append("Nothing found.")
    if end["more"]:
        lines.append(f"[More than {given.limit} lines: narrow the pattern or the place.]")
    if end["secret"]:
        passed_over = counted(end["secret"], "file")
        lines.append(f"[{passed_over} that may hold secrets were not searched: name one to ask.]")
    return "\n".join(lines)


async def _seek(
    job: Job, place: ResolvedPath, given: ListFiles | SearchFiles, **what: Any
) -> tuple[list[Any], dict[str, Any]]:
    if not place.real.exists():
        raise ToolFailure(f"{place.shown} does not exist.")
    order = what | {
        "root": str(place.real),
        "glob": given.glob,
        "limit": given.limit,
        "ignored": given.ignored,
        "above": _list_above(job, place),
        "secret": None if place.secret else CONFIDENTIAL,
        **_name_closed(job),
    }
    program = Path(search_process.__file__)
    ended = await run_process(
        (sys.executable, "-I", "-S", str(program), json.dumps(order)),
        cwd=Path(place.real.anchor),
        environment=clean_environment(job.policy.environment) | {"PYTHONIOENCODING": "utf-8"},
        seconds=min(SECONDS, job.policy.timeout),
        keep=4_000_000,
    )
    if ended.code is None:
        raise ToolFailure(
            "That took too long and was stopped. Look in a smaller directory, or use a simpler "
            "pattern."
        )
    lines = ended.output.splitlines()
    if ended.code or not lines:
        raise ToolFailure(f"The search failed: {lines[-1] if lines else 'no answer'}")
    # The names of files may hold what only Python's own JSON can carry.
    *rows, end = (json.loads(line) for line in lines)
    if "error" in end:
        raise ToolFailure(f"Nothing was searched: {end['error']}.")
    return rows, end


def _name(asked: str, found: str) -> str:
    """A path that the other tools accept."""
    if not found:
        return asked
    return found if asked in (".", "./") else f"{asked.rstrip('/')}/{found}"


def _list_above(job: Job, place: ResolvedPath) -> list[str]:
    """The directories of the workspace above a place: what they ignore is ignored below."""
    root = get_workspace(job).root
    return [str(each) for each in reversed(place.real.parents) if each.is_relative_to(root)]


def _name_closed(job: Job) -> dict[str, Any]:
    """clew's own files and directories, and the one directory below them that is open."""
    opened = job.policy.opened
    return {
        "closed": [str(Path(each).resolve()) for each in job.policy.sealed],
        "opened": None if opened is None else str(Path(opened).resolve()),
    }


TOOLS = (
    Tool(name="list_files", arguments=ListFiles, function=list_files, machine=True, files=True),
    Tool(
        name="search_files", arguments=SearchFiles, function=search_files, machine=True, files=True
    ),
)
