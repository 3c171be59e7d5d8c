"""Writes the pages of docs/reference that the code already knows: commands and errors.

With `--check` nothing is written; it fails when a page differs from what the code says.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from clew import errors
from clew.cli import main as clew

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Written by `make docs`. Change the code, not this page. -->"


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` compare them."""
    if arguments not in ([], ["--check"]):
        print("usage: docs.py [--check]", file=sys.stderr)
        return 2
    stale = []
    for name, render in PAGES.items():
        path = ROOT / name
        text = render()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    if stale and arguments:
        print(f"Out of date: {', '.join(stale)}. `make docs` writes them.", file=sys.stderr)
        return 1
    return 0


def render_commands() -> str:
    """Every command that is not hidden, with its arguments and options."""
    parts = ["# Commands", NOTE]
    for context in walk_commands(click.Context(clew, info_name="clew")):
        parts += list(render_command(context))
    return "\n\n".join(parts) + "\n"


def walk_commands(context: click.Context) -> Iterator[click.Context]:
    """The command of `context` and, below it, those of its group."""
    yield context
    command = context.command
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None and not child.hidden:
            yield from walk_commands(click.Context(child, info_name=name, parent=context))


def render_command(context: click.Context) -> Iterator[str]:
    command = context.command
    yield f"## `{context.command_path}`"
    if command.deprecated:
        yield "Deprecated."
    if command.help:
        yield render_help(command.help)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{context.command_path} {pieces}".rstrip() + "\n```"
    records = [
        record
        for parameter in command.get_params(context)
        # Every command has --help; arguments without a text are in the usage line already.
        if "--help" not in parameter.opts
        and (record := parameter.get_help_record(context)) is not None
        and record[1]
    ]
    if records:
        yield "\n".join(f"- `{names}`: {' '.join(text.split())}" for names, text in records)


def render_help(text: str) -> str:
    """Click's own marks: what follows a form feed is not for people, \\b keeps its lines."""
    paragraphs = inspect.cleandoc(text.partition("\f")[0]).strip().split("\n\n")
    rendered = []
    for paragraph in paragraphs:
        if paragraph.startswith("\b"):
            rendered.append("```\n" + paragraph.removeprefix("\b").strip("\n") + "\n```")
        else:
            rendered.append(paragraph)
    return "\n\n".join(rendered)


def render_errors() -> str:
    """The tree of errors: what a program may match on, and what it means."""
    introduction = (
        "`code` is stable and meant for programs; the command line ends with the exit code. "
        "An error is also every error that it is indented under."
    )
    lines = []
    for depth, error in walk_errors(errors.ClewError, 0):
        meaning = " ".join((inspect.getdoc(error) or "").split())
        lines.append(
            f"{'    ' * depth}- **{error.__name__}** · `{error.code}` · exit {error.exit_code}  \n"
            f"{'    ' * depth}  {meaning}"
        )
    return "\n\n".join(["# Errors", NOTE, introduction, "\n".join(lines)]) + "\n"


def walk_errors(
    error: type[errors.ClewError], depth: int
) -> Iterator[tuple[int, type[errors.ClewError]]]:
    """The tree below `error` in the order of the module; tests may define errors elsewhere."""
    yield depth, error
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from walk_errors(child, depth + 1)


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/commands.md": render_commands,
    "docs/reference/errors.md": render_errors,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
