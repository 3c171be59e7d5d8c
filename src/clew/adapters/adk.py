"""The sessions of Google's Agent Development Kit, kept in a clew store.

    runner = Runner(agent=agent, app_name="app", session_service=ClewSessionService("sessions.db"))

A session of the kit is a session: each event is a turn, what people read of it with the event
itself beside it. Its state is in the session's metadata, written in the same commit. The state of
an app and of a user is in the metadata of a session of its own, which is archived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from clew.adapters.framework import FrameworkStore, part_of, turn_of
from clew.clock import host_clock
from clew.core.changes import DescribeSession
from clew.core.message import Draft, Role, ToolCall
from clew.core.session import Session as Kept
from clew.core.session import SessionFacts
from clew.core.text import to_json
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput
from clew.ports import Store

FRAMEWORK: Final = "google-adk"
PART: Final = "adk_event"

PLACE: Final = "adk_place"
STATE: Final = "adk_state"
TIME: Final = "adk_time"
"""In the metadata: app, user and id of a session, its state, and when it was updated last."""

PAGE: Final = 200
"""Messages that are read at once."""


class ClewSessionService(BaseSessionService):
    """The session of an app and a user is the session with the key `adk:<app>/<user>/<id>`.

    `store` is an open store, or the URL of one, which is opened when it is first needed and closed
    by `close`.
    """

    def __init__(self, store: Store | str) -> None:
        self._sessions = FrameworkStore(store, FRAMEWORK)

    async def close(self) -> None:
        """Refuse later calls; closes the store too if it was opened here."""
        await self._sessions.close()

    # --- reading --------------------------------------------------------------------------------

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """The session with its events, or only the newest of them; None if there is none."""
        kept = await self._find(app_name, user_id, session_id)
        if kept is None:
            return None
        session = await self._session_of(kept)
        wanted = config or GetSessionConfig()
        if wanted.num_recent_events != 0:
            session.events = await self._read_events(kept, wanted)
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """The sessions of an app or of one of its users, without events, the last updated last."""
        prefix = _key(app_name, user_id, "") if user_id is not None else f"adk:{_quoted(app_name)}/"
        found = [
            await self._session_of(kept)
            async for kept in self._sessions.list_sessions(prefix)
            if PLACE in kept.metadata
        ]
        found.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=found)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user in an app, in all sessions."""
        return await self._shared_state(_state_key(app_name, user_id))

    async def _find(self, app_name: str, user_id: str, session_id: str) -> Kept | None:
        if not session_id.strip():
            return None
        kept = await self._sessions.find(_key(app_name, user_id, session_id.strip()))
        return None if kept is None or PLACE not in kept.metadata else kept

    async def _session_of(self, kept: Kept) -> Session:
        """The kit's session, with all state that belongs to it, and without events."""
        app, user, session_id = kept.metadata[PLACE]
        state = dict(kept.metadata[STATE])
        for scope, key in (
            (State.APP_PREFIX, _state_key(app)),
            (State.USER_PREFIX, _state_key(app, user)),
        ):
            shared = await self._shared_state(key)
            state |= {f"{scope}{name}": value for name, value in shared.items()}
        return Session(
            id=session_id,
            app_name=app,
            user_id=user,
            state=state,
            last_update_time=kept.metadata[TIME],
        )

    async def _shared_state(self, key: str) -> dict[str, Any]:
        kept = await self._sessions.find(key)
        return {} if kept is None else dict(kept.metadata.get(STATE, {}))

    async def _read_events(self, kept: Kept, wanted: GetSessionConfig) -> list[Event]:
        most, since = wanted.num_recent_events, wanted.after_timestamp
        store = await self._sessions.get()
        events: list[Event] = []
        before = kept.head + 1
        while True:
            size = PAGE if most is None else min(PAGE, 2 * (most - len(events)) + 8)
            page = await store.get_messages(kept.id, size, before=before, notes=True)
            for message in reversed(page):
                part = part_of(message, PART)
                if part is None:
                    continue
                event = Event.model_validate_json(part["event"])
                if since is not None and event.timestamp < since:
                    return events[::-1]
                events.append(event)
                if len(events) == most:
                    return events[::-1]
            if len(page) < size:
                return events[::-1]
            before = page[0].seq

    # --- writing --------------------------------------------------------------------------------

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Make a session; `AlreadyExistsError` if there is one with this id."""
        name = (session_id or "").strip() or str(uuid4())
        taken = AlreadyExistsError(f"Session with id {name} already exists.")
        if await self._find(app_name, user_id, name) is not None:
            raise taken
        app, user, own = _split(state or {})
        kept = await self._sessions.begin(_key(app_name, user_id, name), name)
        metadata = {
            PLACE: [app_name, user_id, name],
            STATE: own,
            TIME: host_clock() / 1000,
        }
        if PLACE in kept.metadata:
            raise taken
        store = await self._sessions.get()
        try:
            kept = await store.describe_session(
                kept.id, SessionFacts(metadata=metadata), noted=kept.metadata
            )
        except Conflict as conflict:
            raise taken from conflict
        await self._share(app_name, user_id, app, user)
        return await self._session_of(kept)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Add an event, with the state that it changes; one that is there already is passed over.

        Partial events and state of the scope `temp:` are not kept.
        """
        if event.partial:
            return event
        kept = await self._find(session.app_name, session.user_id, session.id)
        if kept is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        store = await self._sessions.get()
        written = event.model_dump_json(exclude_none=True)
        app, user, own = _split(event.actions.state_delta)
        if await self._new_name(kept, event, written) is None:
            return event
        # Shared state goes first: after a crash the event is given again, and changes it again.
        await self._share(session.app_name, session.user_id, app, user)
        while True:
            name = await self._new_name(kept, event, written)
            if name is None:
                return event
            drafts = _drafts(event, {"type": PART, "event": written}, name)
            metadata = {
                **kept.metadata,
                STATE: {**kept.metadata[STATE], **own},
                TIME: event.timestamp,
            }
            facts = DescribeSession(SessionFacts(metadata=metadata), kept.metadata)
            try:
                await store.record(kept.id, None, *turn_of(*drafts), facts)
                break
            except Conflict:
                kept = await store.get_session(kept.id)
        self._commit_event_to_session(session, event)
        session.last_update_time = event.timestamp
        return event

    async def _new_name(self, kept: Kept, event: Event, written: str) -> str | None:
        """The external id of an event; None if this event is there already.

        Different events with the same id are kept, each with a number.
        """
        store = await self._sessions.get()
        prefix = f"event/{quote(event.id, safe='')}/"
        same = await store.list_external(kept.id, prefix)
        kept_parts = (part_of(each, PART) for each in same)
        if any(part is not None and part["event"] == written for part in kept_parts):
            return None
        return f"{prefix}{len(same)}"

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Put a session in clew's trash; the state of its app and user stays."""
        kept = await self._find(app_name, user_id, session_id)
        if kept is not None:
            await self._sessions.delete([kept])

    async def _share(
        self, app_name: str, user_id: str, app: Mapping[str, Any], user: Mapping[str, Any]
    ) -> None:
        """Change the state of an app and of a user."""
        for key, changed in ((_state_key(app_name), app), (_state_key(app_name, user_id), user)):
            while changed:
                kept = await self._sessions.begin(key, key)
                store = await self._sessions.get()
                if kept.archived_at is None:
                    await store.mark_sessions([kept.id], archived=True)
                metadata = {**kept.metadata, STATE: {**kept.metadata.get(STATE, {}), **changed}}
                try:
                    await store.describe_session(
                        kept.id, SessionFacts(metadata=metadata), noted=kept.metadata
                    )
                except Conflict:
                    continue  # another process has changed it: read it again
                break


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _key(app_name: str, user_id: str, session_id: str) -> str:
    return f"adk:{_quoted(app_name)}/{_quoted(user_id)}/{_quoted(session_id)}"


def _state_key(app_name: str, user_id: str | None = None) -> str:
    user = "" if user_id is None else f"/{_quoted(user_id)}"
    return f"adk-state:{_quoted(app_name)}{user}"


def _split(delta: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """What a change of state says of the app, of the user and of the session, as JSON."""
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    own: dict[str, Any] = {}
    try:
        values = to_jsonable_python(dict(delta))
    except ValueError as error:
        raise InvalidInput(f"State must be JSON: {error}. Nothing was changed.") from error
    for name, value in values.items():
        if name.startswith(State.APP_PREFIX):
            app[name.removeprefix(State.APP_PREFIX)] = value
        elif name.startswith(State.USER_PREFIX):
            user[name.removeprefix(State.USER_PREFIX)] = value
        elif not name.startswith(State.TEMP_PREFIX):
            own[name] = value
    return app, user, own


def _drafts(event: Event, part: dict[str, Any], name: str) -> list[Draft]:
    """What people read of an event; the first message has the event itself."""
    parts = event.content.parts or [] if event.content else []
    text = "".join(each.text for each in parts if each.text and not each.thought)
    calls = tuple(
        ToolCall(each.function_call.id or "", each.function_call.name or "tool",
                 to_json(to_jsonable_python(each.function_call.args or {})))
        for each in parts
        if each.function_call
    )  # fmt: skip
    drafts: list[dict[str, Any]] = []
    if text or calls:
        role: Role = "user" if event.author == "user" else "assistant"
        drafts.append({"role": role, "content": text, "tool_calls": calls})
    drafts += [
        {
            "role": "tool",
            "content": to_json(to_jsonable_python(each.function_response.response or {})),
            "tool_call_id": each.function_response.id,
            "tool_name": each.function_response.name,
        }
        for each in parts
        if each.function_response
    ]
    if not drafts:
        drafts.append({"role": "note"})
    drafts[0] |= {
        "parts": (part,),
        "external_id": name,
        "model": event.model_version,
        "usage": _usage_of(event),
    }
    return [Draft(**each) for each in drafts]


def _usage_of(event: Event) -> Usage | None:
    spent = event.usage_metadata
    if spent is None:
        return None
    cached = spent.cached_content_token_count or 0
    return Usage(
        input_tokens=max(0, (spent.prompt_token_count or 0) - cached),
        output_tokens=(spent.candidates_token_count or 0) + (spent.thoughts_token_count or 0),
        cache_read_tokens=cached,
        cache_creation_tokens=0,
        cost=None,
        api_calls=1,
    )
