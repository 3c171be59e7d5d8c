"""`clew show`: a session as a transcript."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click
import msgspec

from clew.cli.app import App, client_command
from clew.cli.options import session_argument
from clew.cli.tables import fit, home_relative, wrap
from clew.core.channels.speech import name_of
from clew.core.names import counted, format_cost
from clew.core.rules import word_rule
from clew.core.text import cut, strip_controls
from clew.core.turn import ENDS, place_unfinished
from clew.errors import Forbidden

if TYPE_CHECKING:
    from clew.api.sessions import MessagePage, SessionView
    from clew.client.client import Client
    from clew.core.message import Message, ToolCall
    from clew.core.rules import HeldRule
    from clew.core.session import Session
    from clew.core.turn import Turn

PAGE: Final = 1_000
"""Messages in one request."""
RESULT_LINES: Final = 4
"""Lines of a tool's result that a transcript shows."""
CALL_COLUMNS: Final = 100
"""Columns of a tool call if the width of the terminal is unknown."""


class Transcript(msgspec.Struct, frozen=True):
    """A session and its messages; `undone` are the numbers of undone messages."""

    session: SessionView
    messages: tuple[Message, ...]
    undone: tuple[int, ...] = ()
    unfinished: tuple[Turn, ...] = ()
    rules: tuple[HeldRule, ...] = ()


@click.command("show")
@session_argument
@click.option(
    "-n", "limit", metavar="N", type=click.IntRange(0), help="Only the newest N messages."
)
@click.option(
    "--undone", "with_undone", is_flag=True, help="Also messages that were undone with /undo."
)
@client_command
def show_command(app: App, typed: str, limit: int | None, with_undone: bool) -> None:
    """Show the transcript of a session, and the rules about tools that hold in it.

    Results of tools are shortened; `clew export` and --json have them whole.

    \b
    Examples:
      clew show 550e8400
      clew show "Fix the login redirect" -n 10
      clew show 550e --json
    """
    transcript = app.call(lambda client: _read(client, typed, limit, undone=with_undone))
    if app.json:
        app.emit(transcript)
    else:
        app.say("\n".join(render(app, transcript)))


async def _read(client: Client, typed: str, limit: int | None, *, undone: bool) -> Transcript:
    """The session that was named and its newest messages; all if `limit` is None."""
    session = await client.sessions.resolve(typed, purpose="read")
    pages: list[MessagePage] = []
    left = session.head + 1 if limit is None else limit
    before: int | None = None
    while left > 0:
        page = await client.sessions.messages(
            session.id, limit=min(PAGE, left), before=before, undone=undone
        )
        pages.insert(0, page)
        if not page.more:
            break
        left -= len(page.messages)
        before = page.messages[0].seq
    stopped = {turn.id: turn for page in pages for turn in page.unfinished}
    return Transcript(
        session,
        tuple(message for page in pages for message in page.messages),
        tuple(seq for page in pages for seq in page.undone),
        tuple(stopped.values()),
        await _find_rules(client, session),
    )


async def _find_rules(client: Client, session: SessionView) -> tuple[HeldRule, ...]:
    """The rules that hold in the session; a guest's credential may not see them."""
    try:
        return await client.sessions.rules(session.id)
    except Forbidden:
        return ()


def render(app: App, transcript: Transcript) -> Iterator[str]:
    """The lines of a transcript."""
    session = transcript.session
    yield app.colour(session.listed_name, "bold")
    yield app.colour(session.id, "id")
    for line in (_place(session), _numbers(app, session)):
        yield app.colour(fit(app, " · ".join(line)), "dim")
    for rule in transcript.rules:
        yield app.colour(fit(app, word_rule(rule)), "dim")
    earlier = session.message_count + len(transcript.undone) - len(transcript.messages)
    if transcript.messages and earlier > 0:
        yield ""
        yield app.colour(f"… {counted(earlier, 'earlier message')}", "dim")
    stopped = place_unfinished(transcript.unfinished, transcript.messages)
    for message in transcript.messages:
        yield ""
        yield from _message(app, message, undone=message.seq in transcript.undone)
        if message.seq in stopped:
            yield ""
            yield from _unfinished(app, stopped[message.seq])
    if not session.message_count:
        yield ""
        yield "No messages yet."


def _place(session: Session) -> Iterator[str]:
    for part in (session.platform, session.shown_model, home_relative(session.shown_directory)):
        if part:
            yield strip_controls(part, keep_newlines=False)


def _numbers(app: App, session: Session) -> Iterator[str]:
    yield counted(session.message_count, "message")
    yield f"updated {app.ago(session.updated_at)}"
    tokens = session.usage.input_tokens + session.usage.output_tokens
    if tokens:
        yield counted(tokens, "token")
        yield format_cost(session.usage.cost)
    if session.pinned:
        yield "pinned"
    if session.archived_at is not None:
        yield "archived"


def _message(app: App, message: Message, *, undone: bool) -> Iterator[str]:
    who = message.role if message.tool_name is None else f"{message.role} {message.tool_name}"
    if message.author is not None:
        who = f"{who} {name_of(message.author)}"
    marks = [f"#{message.seq}", app.local_time(message.at)]
    marks += ["failed"] if message.is_error else []
    marks += ["undone"] if undone else []
    head = app.colour(strip_controls(who, keep_newlines=False), message.role)
    yield f"{head}  {app.colour(' · '.join(marks), 'dim')}"
    text = strip_controls(message.content).rstrip("\n")
    if message.role == "tool":
        yield from _result(app, text)
    elif text:
        yield text if app.width is None else "\n".join(_wrapped(text, app.width))
    attachments = sum("blob" in part for part in message.parts)
    if attachments:
        yield app.colour(f"  + {attachments} attached", "dim")
    for call in message.tool_calls:
        yield _call(app, call)


def _unfinished(app: App, turn: Turn) -> Iterator[str]:
    """The partial answer of a turn that was stopped; it is not a message."""
    yield f"{app.colour('assistant', 'assistant')}  {app.colour(ENDS[turn.status], 'dim')}"
    text = strip_controls(turn.partial or "").strip("\n")
    for line in text.split("\n") if app.width is None else _wrapped(text, app.width):
        yield app.colour(line, "dim")


def _wrapped(text: str, width: int) -> Iterator[str]:
    """Long lines of prose broken between words; code stays as it is."""
    in_code = False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith(("```", "~~~"))
        yield from [line] if in_code else wrap(line, width)


def _result(app: App, text: str) -> Iterator[str]:
    lines = text.splitlines() or ["(nothing)"]
    width = (app.width or CALL_COLUMNS) - 2
    for line in lines[:RESULT_LINES]:
        yield app.colour(f"  {cut(line.expandtabs(4), width)}", "dim")
    if len(lines) > RESULT_LINES:
        left = counted(len(lines) - RESULT_LINES, "more line")
        yield app.colour(f"  … {left}", "dim")


def _call(app: App, call: ToolCall) -> str:
    width = (app.width or CALL_COLUMNS) - 4
    text = strip_controls(f"{call.name} {call.arguments}", keep_newlines=False)
    return f"  {app.colour('→ ' + cut(text, width), 'tool')}"
