"""Writes the pages that the code already knows: commands, errors, the API, and who may do what.

With `--check` nothing is written; it fails when a page differs from what the code says.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from clew import errors
from clew.api.frames import ClientFrame, LiveFrame, StreamFrame
from clew.api.operation import Operation
from clew.api.table import OPERATIONS
from clew.cli import main as clew
from clew.core.commands import COMMANDS
from clew.core.tokens import MEANINGS, OWNERS, SCOPES, covers
from clew.gateway.app import DOCUMENT, HEALTH, RPC
from clew.gateway.browser_login import LOGIN, LOGOUT, MAKE_LINK
from clew.gateway.event_streams import EVENTS
from clew.gateway.live import LIVE
from clew.gateway.mcp_endpoint import MCP
from clew.gateway.metrics import METRICS
from clew.gateway.openai_door import CHAT, MODELS, RESPOND
from clew.gateway.webhook_endpoint import WEBHOOK

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


# --- the API ------------------------------------------------------------------------------------

BESIDE = (
    LIVE, EVENTS, RPC, MCP, CHAT, RESPOND, MODELS, WEBHOOK, LOGIN, LOGOUT, MAKE_LINK,
    DOCUMENT, HEALTH, METRICS,
)  # fmt: skip
"""What a gateway has beside the table."""
OPEN = (HEALTH, WEBHOOK, LOGIN)
"""What needs no token."""
BARE = {"boolean": "true or false", "integer": "number", "number": "number", "string": "text"}


def render_api() -> str:
    """Every operation with what it takes, and every value that goes over the wire."""
    frames = [kind for union in (ClientFrame, LiveFrame, StreamFrame) for kind in get_args(union)]
    every = (*OPERATIONS, *BESIDE)
    kinds = [kind for each in every for kind in (each.takes, each.gives) if kind is not None]
    _, known = msgspec.json.schema_components([*kinds, *frames], ref_template="{name}")
    introduction = (
        "JSON over HTTP, made from one table in the code: the same operations go by their names "
        "over `POST /v1/rpc`, `clew gateway call` and the [SDK](../guides/sdk.md). What holds for "
        "all of them, errors above all, is in [Running a gateway](../guides/gateway.md#the-api). "
        "Times are milliseconds UTC. A field that an operation does not know is refused."
    )
    parts = ["# API", NOTE, introduction, "## Operations", render_table()]
    for operation in OPERATIONS:
        parts += list(render_operation(operation, known))
    parts.append("## Beside the table")
    for operation in BESIDE:
        parts += list(render_operation(operation, known))
    taken = {each.takes.__name__ for each in every}
    named = {kind.__name__ for kind in frames}
    parts += ["## Frames", "What goes over `/v1/live` and event streams; `type` says which it is."]
    for name in dict.fromkeys(kind.__name__ for kind in frames):
        parts += list(render_value(name, known[name]))
    parts.append("## Values")
    for name in sorted(known.keys() - taken - named):
        parts += list(render_value(name, known[name]))
    return "\n\n".join(parts) + "\n"


def render_table() -> str:
    rows = ["| operation | | scope |", "|---|---|---|"]
    for each in OPERATIONS:
        place = f"`{each.method} {each.path}`"
        rows.append(f"| [`{each.name}`](#{anchor_of(title_of(each))}) | {place} | `{each.scope}` |")
    return "\n".join(rows)


def render_operation(operation: Operation[Any, Any], known: dict[str, Any]) -> Iterator[str]:
    yield f"### {title_of(operation)}"
    scope = "no token" if operation in OPEN else f"scope `{operation.scope}`"
    scope += ", for guests too" if operation.who == "guest" and operation not in OPEN else ""
    scope += f" ({operation.also})" if operation.also else ""
    answer = "a WebSocket" if operation is LIVE else "nothing"
    if operation.answer == "file":
        answer = "the file"
    elif isinstance(operation.gives, type) and operation.gives.__name__ in known:
        answer = link_to(operation.gives.__name__)
    elif operation.gives is not None:
        answer = "JSON"
    tag = " with an `ETag`" if operation.etag is not None else ""
    status = 101 if operation is LIVE else operation.status
    yield f"{scope[0].upper()}{scope[1:]} · answers {status}, {answer}{tag}"
    schema = known.get(operation.takes.__name__, {})
    about = " ".join(schema.get("description", "").split())
    # What a struct says of its fields; all else is said of its operation already.
    yield f"{operation.help} {about}" if "`" in about else operation.help
    places = dict.fromkeys(operation.path_fields, "path")
    places |= dict.fromkeys(operation.header_fields, "`If-Match`")
    rest = "body" if operation.has_body else "query"
    lines = [
        render_field(name, each, name in schema.get("required", ()), places.get(name, rest))
        for name, each in schema.get("properties", {}).items()
    ]
    if lines:
        yield "\n".join(lines)


def render_value(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### `{name}`"
    if schema.get("description"):
        yield " ".join(schema["description"].split())
    fields = schema.get("properties", {})
    needed = schema.get("required", ())
    if fields:
        yield "\n".join(render_field(each, fields[each], each in needed) for each in fields)


def render_field(name: str, schema: dict[str, Any], is_needed: bool, place: str = "") -> str:
    words = [place] if place else []
    kind = render_kind(schema)
    # In a query, what is null is left out.
    words.append(kind.removesuffix(" or null") if place == "query" else kind)
    if place and is_needed:
        words.append("required")
    if schema.get("default") not in (None, [], {}):
        words.append(f"usually `{msgspec.json.encode(schema['default']).decode()}`")
    return f"- `{name}`: {', '.join(words)}"


def render_kind(schema: dict[str, Any]) -> str:  # noqa: PLR0911  # one for each kind
    """A schema in words."""
    if "$ref" in schema:
        return link_to(schema["$ref"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(render_kind, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(f"`{each}`" for each in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"a list of {render_kind(schema.get('items') or {})}"
        case "string" if "contentEncoding" in schema:
            return "bytes in base64"
        case "string" if "maxLength" in schema:
            return f"text of up to {schema['maxLength']:,}"
        case "integer" if schema.get("maximum", 2**53) < 2**53 - 1:
            return f"number from {schema['minimum']:,} to {schema['maximum']:,}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"an object of {render_kind(schema['additionalProperties'])}"
        case "object":
            return "an object"
        case "null":
            return "null"
        case str(kind):
            return BARE.get(kind, kind)
    return "anything"


def title_of(operation: Operation[Any, Any]) -> str:
    """With its address, as some values have the same name."""
    return f"`{operation.name}` `{operation.method} {operation.path}`"


def link_to(name: str) -> str:
    return f"[`{name}`](#{anchor_of(name)})"


def anchor_of(title: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


# --- who may do what ------------------------------------------------------------------------------

TABLES = (
    "<!-- The tables: written by `make docs` from the code. -->",
    "<!-- The end of the tables. -->",
)


ABOUT_OPERATIONS = """\
What each operation of a gateway needs. *Guests*: other people may call it for what is theirs."""
ABOUT_COMMANDS = """\
What each slash command needs of a token, and which of them guests have: on a channel, in a direct
chat only. `/approve always` needs `admin`, `/resume` under a key that others read needs `write`."""
SIGNED = {"hooks.call": "the webhook's signature", "login": "a sign-in code"}
"""What has to come in place of a token."""


def render_security() -> str:
    """SECURITY.md as it is, with the tables of the code between the two marks."""
    before, mark, rest = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition(TABLES[0])
    _, end, after = rest.partition(TABLES[1])
    if not mark or not end:
        raise SystemExit(f"SECURITY.md needs these two lines: {TABLES}")
    parts = [
        render_scopes(),
        ABOUT_OPERATIONS,
        render_needs(),
        ABOUT_COMMANDS,
        render_command_needs(),
    ]
    return f"{before}{mark}\n\n" + "\n\n".join(parts) + f"\n\n{end}{after}"


def render_scopes() -> str:
    rows = ["| scope | a token with it | includes | for |", "|---|---|---|---|"]
    for each, meaning in MEANINGS.items():
        included = [f"`{other}`" for other in SCOPES if other != each and covers((each,), other)]
        whom = "the owner" if each in OWNERS else "everybody"
        rows.append(f"| `{each}` | {meaning} | {', '.join(included) or 'nothing else'} | {whom} |")
    return "\n".join(rows)


def render_needs() -> str:
    rows = ["| operation | needs | guests | beyond that |", "|---|---|---|---|"]
    for each in (*OPERATIONS, *BESIDE):
        needs = SIGNED.get(each.name, "nothing") if each in OPEN else f"`{each.scope}`"
        guests = "yes" if each.who == "guest" else ""
        rows.append(f"| `{each.name}` | {needs} | {guests} | {each.also} |")
    return "\n".join(rows)


def render_command_needs() -> str:
    rows = ["| command | needs | guests |", "|---|---|---|"]
    for each in COMMANDS.values():
        guests = "yes" if each.who == "guest" else ""
        rows.append(f"| `/{each.name}` | `{each.scope}` | {guests} |")
    return "\n".join(rows)


PAGES: dict[str, Callable[[], str]] = {
    "SECURITY.md": render_security,
    "docs/reference/api.md": render_api,
    "docs/reference/commands.md": render_commands,
    "docs/reference/errors.md": render_errors,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
