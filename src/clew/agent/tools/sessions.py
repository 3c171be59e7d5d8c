"""Tools for other sessions: search and read those the person may see, and start a sub-agent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from clew.agent.tools.tool import Arguments, Job, Tool, ToolFailure, shorten
from clew.core.keys import id_prefix
from clew.core.message import Message
from clew.core.names import counted, recent_name
from clew.core.search.hits import SearchFilter
from clew.core.session import Session, SessionFilter, may_see
from clew.errors import PersonalityNotFound, TurnFailed

MAX_MESSAGE = 2_000

SessionArgument = Annotated[
    str, Meta(max_length=100, description="A session's id, or the beginning of it.")
]


class SearchSessions(Arguments, frozen=True):
    """A search."""

    query: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1000,
            description='Words that must occur; "a phrase", -without and OR work too.',
        ),
    ]
    session: SessionArgument = ""
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


class ListSessions(Arguments, frozen=True):
    """A list."""

    text: Annotated[str, Meta(max_length=200, description="Part of the title or beginning.")] = ""
    here: Annotated[bool, Meta(description="Only sessions of this directory.")] = False
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class ReadSession(Arguments, frozen=True):
    """A page of a thread."""

    session: SessionArgument
    before: Annotated[
        int, Meta(ge=0, description="Only messages before this number; 0 for the newest.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class Spawn(Arguments, frozen=True):
    """A task."""

    task: Annotated[
        str,
        Meta(min_length=1, description="All that the sub-agent has to know: it sees nothing else."),
    ]
    personality: Annotated[
        str, Meta(max_length=100, description="Such as researcher; empty for this one's.")
    ] = ""


async def session_search(job: Job, given: SearchSessions) -> str:
    """Search the text of past conversations, or of one of them.

    Every hit has the session's id and the message's number; session_read shows what was around it.
    """
    session = await _get_session(job, given.session) if given.session else None
    where = SearchFilter(viewer=job.turn.person, session=session.id if session else None)
    page = await job.store.search(given.query, where, limit=given.limit)
    if not page.hits:
        return "Nothing found."
    lines = []
    for hit in page.hits:
        name = recent_name(hit.title, None, hit.preview, hit.session_id)
        where_from = f"{hit.session_id} #{hit.seq} {hit.role} {_when(hit.at)} ({name})"
        lines.append(f"{where_from}\n  {hit.snippet.text}")
    if page.cut or page.cursor:
        lines.append("[There may be more: use rarer words.]")
    return "\n".join(lines)


async def sessions_list(job: Job, given: ListSessions) -> str:
    """List past conversations, newest first, with their ids."""
    where = SessionFilter(
        viewer=job.turn.person,
        text=given.text or None,
        cwd=job.turn.session.cwd if given.here else None,
    )
    page = await job.store.list_sessions(where, limit=given.limit)
    if not page.sessions:
        return "No sessions."
    lines = [_describe(job, session) for session in page.sessions]
    if page.cursor:
        lines.append(f"[More than {given.limit}: narrow it with text.]")
    return "\n".join(lines)


async def session_read(job: Job, given: ReadSession) -> str:
    """Read messages of a conversation, oldest first, each with its number.

    Shows the newest ones, or those before a number. Long messages are cut.
    """
    session = await _get_session(job, given.session)
    found = await job.store.get_messages(session.id, given.limit, before=given.before or None)
    if not found:
        return "No messages there."
    lines = [_describe(job, session), *(_show(message) for message in found)]
    first = found[0].seq
    if first > 1:
        lines.append(f"[Earlier ones: before={first}.]")
    return "\n\n".join(lines)


async def spawn(job: Job, given: Spawn) -> str:
    """Give a task to a sub-agent in a session of its own, and get its last answer back.

    Good for work whose details would fill this conversation, such as reading through many files.
    """
    await job.permit({}, summary=f"Start a sub-agent: {given.task}", detail=given.task)
    personality = given.personality or job.personality.id
    try:
        answer = await job.turn.spawn(given.task, personality=personality)
    except (PersonalityNotFound, TurnFailed) as error:
        raise ToolFailure(f"The sub-agent failed: {error}") from None
    return answer or "(The sub-agent ended without an answer.)"


async def _get_session(job: Job, typed: str) -> Session:
    """The one session that was meant, among those that the person may see."""
    prefix = id_prefix(typed)
    candidates = await job.store.find_sessions(prefix, limit=20) if prefix else ()
    seen = [each for each in candidates if may_see(job.turn.person, each.person)]
    if not seen:
        raise ToolFailure(f'No session with the id "{typed}". sessions_list shows them.')
    if len(seen) > 1:
        ids = ", ".join(each.id for each in seen[:5])
        raise ToolFailure(
            f'"{typed}" fits {counted(len(seen), "session")}: {ids}. Give more of it.'
        )
    return seen[0]


def _describe(job: Job, session: Session) -> str:
    this = ", this session" if session.id == job.turn.session.id else ""
    size = counted(session.message_count, "message")
    where = f"{_when(session.updated_at)} {session.platform}"
    return f"{session.id} {where}: {session.name} ({size}{this})"


def _show(message: Message) -> str:
    calls = "".join(f"\n[calls {call.name} {call.arguments[:200]}]" for call in message.tool_calls)
    who = message.role if message.role != "tool" else f"result of {message.tool_name}"
    text = shorten(message.content, MAX_MESSAGE)
    return f"#{message.seq} {who} {_when(message.at)}:\n{text}{calls}"


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


TOOLS = (
    Tool(name="session_search", arguments=SearchSessions, function=session_search, special=True),
    Tool(name="sessions_list", arguments=ListSessions, function=sessions_list),
    Tool(name="session_read", arguments=ReadSession, function=session_read),
    Tool(name="spawn", arguments=Spawn, function=spawn, machine=True),
)
