"""How messages and events look on paper: one line for a tool, the whole text for what was said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from clew.core.message import Message
from clew.core.text import cut, strip_controls
from clew.core.turn import Approval

LINE = 100
"""Columns of a one-line summary."""

RESULT_LINES = 20
"""Lines of a tool's result that are shown when somebody wants to see results."""


def one_line(text: str, columns: int = LINE) -> str:
    """The text in one clean line."""
    return cut(" ".join(strip_controls(text).split()), columns)


def call_line(name: str, arguments: dict[str, Any]) -> str:
    """A tool call: its name and what matters most of its arguments."""
    if not arguments:
        return strip_controls(name)
    shown = next(
        (arguments[key] for key in ("command", "path", "query", "pattern", "task", "name")
         if key in arguments),
        None,
    )  # fmt: skip
    if shown is None and len(arguments) == 1:
        ((key, shown),) = arguments.items()
        shown = f"{len(shown)} {key}" if isinstance(shown, list) else shown
    if not isinstance(shown, str):
        shown = json.dumps(arguments if shown is None else shown, ensure_ascii=False)
    return one_line(f"{name} {shown}")


def result_lines(content: str, *, verbose: bool, is_error: bool) -> Iterator[str]:
    """A tool's result: how much it is, or its beginning."""
    lines = strip_controls(content).splitlines()
    if is_error:
        yield "failed:" if verbose else f"failed: {one_line(content)}"
    elif not verbose:
        yield f"{len(lines)} lines" if len(lines) != 1 else one_line(content, 72)
    if verbose:
        yield from lines[:RESULT_LINES]
        if len(lines) > RESULT_LINES:
            yield f"… {len(lines) - RESULT_LINES} more lines"


def message_lines(message: Message, *, verbose: bool) -> Iterator[tuple[str, str | None]]:
    """A stored message, line by line, each with its style."""
    match message.role:
        case "user":
            for line in strip_controls(message.content).split("\n"):
                yield f"> {line}", "user"
        case "assistant":
            if message.content.strip():
                for line in strip_controls(message.content).split("\n"):
                    yield line, None
            for call in message.tool_calls:
                yield f"* {call_line(call.name, read_arguments(call.arguments))}", "tool"
        case _:
            for line in result_lines(message.content, verbose=verbose, is_error=message.is_error):
                yield f"  {line}", "error" if message.is_error else "dim"


def question_lines(approval: Approval) -> Iterator[tuple[str, str | None]]:
    """What a tool wants to do, and how to answer."""
    request = approval.request
    summary = str(request.get("summary") or approval.tool_name)
    yield f"? {one_line(summary)}", "warning"
    detail = strip_controls(str(request.get("detail") or ""))
    if detail and not says_all(summary, detail):
        for line in detail.splitlines()[:RESULT_LINES]:
            yield f"    {line}", None
        if len(detail.splitlines()) > RESULT_LINES:
            yield f"    … {len(detail.splitlines()) - RESULT_LINES} more lines", "dim"
    if request.get("rule"):
        yield f"  session and always allow: {one_line(str(request['rule']), 70)}", "dim"


def says_all(summary: str, detail: str) -> bool:
    """Whether a summary has all of a detail: never of several lines, for where one ends matters."""
    return len(detail.strip().splitlines()) <= 1 and one_line(detail) in one_line(summary)


def read_arguments(text: str) -> dict[str, Any]:
    """A call's arguments; what is no JSON object is one argument."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"arguments": text}
    return value if isinstance(value, dict) else {"arguments": value}
