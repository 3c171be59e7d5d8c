"""The caller, and the parts that the handlers work with. `wiring` builds them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from clew.api.operation import Operation, P, R
from clew.api.problems import problem_of
from clew.api.sessions import (
    Failed,
    Hit,
    Imported,
    ListedSession,
    MessageHtml,
    SessionView,
    StateView,
)
from clew.core.message import Message
from clew.core.session import (
    OWNER,
    Session,
    SessionState,
    may_see,
    status_of,
)
from clew.core.tokens import ALL, Scope, Scopes, covers, write_scopes
from clew.errors import ClewError, Forbidden, ModelNotFound, SessionNotFound

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    from clew.api.config import ConfigChanged, SettingView
    from clew.api.gateway import ConfigReloaded
    from clew.api.status import ChannelView, ErrandView, FindingView, StoreView
    from clew.core.channels.session_choice import Judge, ReceptionRules
    from clew.core.keys import Place
    from clew.core.models import ModelInfo
    from clew.core.rules import HeldRule
    from clew.core.session import Retention
    from clew.files.workspaces import Workspaces
    from clew.ports import Clock, Context, Memory, Models, Personalities, Recall, Store
    from clew.runtime.cron import CronFile
    from clew.runtime.inbound.reception import Reception
    from clew.runtime.place.attachment import Attachments
    from clew.runtime.runtime import Runtime

Format: TypeAlias = Literal["md", "html", "jsonl", "claude-code", "codex"]


CHOOSE: Final = "choose the model, thinking or personality"
"""What a guest may not do in any way, as `/model` is refused to them."""

Exporter: TypeAlias = Callable[[Session, Format, bool | None, bool], AsyncIterator[str]]
"""Exports a session in pieces; arguments: kind, masked (None: the default), thinking."""


Renderer: TypeAlias = Callable[[Sequence[Message]], Awaitable[tuple[MessageHtml, ...]]]
"""Renders messages as HTML, one text for each."""


class Importer(Protocol):
    """Makes a session from the lines of a transcript; never changes an existing session.

    `cwd` is the directory of the new session. The file itself decides only what was said.
    """

    async def __call__(
        self, lines: Iterable[bytes], *, as_new: bool, dry_run: bool, cwd: str | None
    ) -> Imported: ...


class SettingsFile(Protocol):
    """The configuration of this process, and the file in which it is changed."""

    def list_settings(self) -> tuple[SettingView, ...]:
        """All values that are in effect; secrets are hidden."""
        ...

    def set(self, key: str, value: str | None) -> ConfigChanged:
        """Change a value, in the file and from now on; None removes it. Waits for the disk."""
        ...


class ConfigReloader(Protocol):
    """Reads the configuration of a gateway anew."""

    async def reload(self) -> ConfigReloaded:
        """Use the file's configuration from now on; `InvalidInput` if it is wrong."""
        ...

    def find_changes(self) -> tuple[tuple[str, ...], str | None]:
        """The keys that the file has otherwise than this process, and what is wrong with it."""
        ...


class AskModel(Protocol):
    """Asks a model one question, beside all sessions; `soul` is the system prompt.

    Raises `ClewError` with an explanation for the person.
    """

    async def __call__(self, info: ModelInfo, question: str, soul: str = "") -> str: ...


class Caller(msgspec.Struct, frozen=True):
    """The caller: a person, and the scopes of their token. In process it is the owner."""

    person: str = OWNER
    scopes: Scopes = ALL
    token_id: str | None = None

    @property
    def is_owner(self) -> bool:
        """Whether the caller is the owner."""
        return self.person == OWNER

    @property
    def is_admin(self) -> bool:
        """Whether the credential may do everything."""
        return covers(self.scopes, "admin")

    @property
    def signature(self) -> str:
        """The author of the caller's changes: the person, or the token that was used."""
        return self.person if self.token_id is None else f"api:{self.token_id}"

    def check(self, operation: Operation[Any, Any]) -> None:
        """Raise `Forbidden` if this person or these scopes may not call the operation."""
        if operation.who == "owner":
            self.need_owner(f"use {operation.name}")
        self.need(operation.scope, operation.name)

    def need(self, scope: Scope, what: str) -> None:
        """Raise `Forbidden` if the token does not have the scope that `what` needs."""
        if not covers(self.scopes, scope):
            raise Forbidden(
                f"{what} needs a token with the scope {scope}; this one has "
                f"{write_scopes(self.scopes)}. Nothing was changed."
            )

    def need_owner(self, what: str) -> None:
        """Raise `Forbidden` unless the caller is the owner."""
        if not self.is_owner:
            raise Forbidden(f"Only the owner of this clew may {what}. Nothing was changed.")


class Parts(Protocol):
    """The parts that handlers work with. A part may be built when it is first used.

    So a handler uses no more than it needs: a list needs the store, but no runtime. A part that
    this process does not have is None.
    """

    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def models(self) -> Models: ...
    @property
    def personalities(self) -> Personalities: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def recall(self) -> Recall: ...
    @property
    def context(self) -> Context | None: ...
    @property
    def reception(self) -> Reception | None: ...
    @property
    def jobs(self) -> CronFile | None: ...
    @property
    def place(self) -> Place: ...
    @property
    def workspaces(self) -> Workspaces: ...
    @property
    def judge(self) -> Judge | None: ...
    @property
    def rules(self) -> ReceptionRules: ...
    @property
    def zone(self) -> tzinfo: ...
    @property
    def timezone(self) -> str | None: ...
    @property
    def export(self) -> Exporter | None: ...
    @property
    def import_transcript(self) -> Importer | None: ...
    @property
    def retention(self) -> Retention: ...
    @property
    def render(self) -> Renderer | None: ...
    @property
    def describe(self) -> Callable[[], Awaitable[StoreView]] | None: ...
    @property
    def config_file(self) -> Path | None: ...
    @property
    def examine(self) -> Callable[[], Awaitable[tuple[FindingView, ...]]] | None: ...
    @property
    def settings(self) -> SettingsFile | None: ...
    @property
    def reloader(self) -> ConfigReloader | None:
        """Reads the configuration anew; None without a gateway."""
        ...

    @property
    def ask_model(self) -> AskModel | None: ...
    @property
    def started_at(self) -> int | None:
        """When the gateway of this process was started; None without one."""
        ...

    @property
    def attachments(self) -> Attachments | None:
        """The sessions that the terminal of this process holds; None at a gateway."""
        ...

    @property
    def is_terminal(self) -> bool:
        """Whether this process is a terminal: no other process takes over its messages."""
        ...

    def is_running(self, session_id: str) -> bool:
        """Whether this process is at work in the session."""
        ...

    def list_channels(self) -> tuple[ChannelView, ...]:
        """The channels of a gateway, as they are shown."""
        ...

    async def check_channel(self, name: str, account: str) -> tuple[str, tuple[str, ...]] | None:
        """Ask the platform of a channel who it is there, and what it lacks.

        None if that channel has no such question.
        """
        ...

    def list_errands(self) -> tuple[ErrandView, ...]:
        """The background tasks of a gateway, as they are shown."""
        ...

    def list_tool_rules(self) -> tuple[HeldRule, ...]:
        """The rules about tools that hold in every session of this process."""
        ...

    def find_backup_time(self) -> int | None:
        """When the store was last backed up, as far as is known."""
        ...

    def list_job_problems(self) -> dict[str, str]:
        """The last problem of each job."""
        ...


async def get_visible(
    parts: Parts, session_id: str, caller: Caller, *, trashed: bool = False
) -> Session:
    """The session; `SessionNotFound` also if the caller may not see it."""
    session = await parts.store.get_session(session_id)
    if not may_see(caller.person, session.person):
        raise SessionNotFound(session_id)
    if (session.deleted_at is not None) is not trashed:
        advice = "It is not in the trash." if trashed else "It is in the trash; restore it first."
        raise SessionNotFound(session_id, advice)
    return session


async def find_each(
    parts: Parts, ids: Sequence[str], caller: Caller, *, trashed: bool = False
) -> tuple[list[Session], tuple[Failed, ...]]:
    """Each session that the caller may see, once, and the errors of the others."""
    found: list[Session] = []
    failed: list[Failed] = []
    for each in dict.fromkeys(ids):
        try:
            found.append(await get_visible(parts, each, caller, trashed=trashed))
        except ClewError as error:
            failed.append(Failed(each, problem_of(error)))
    return found, tuple(failed)


async def view_all(parts: Parts, sessions: Sequence[Session]) -> tuple[SessionView, ...]:
    """Sessions as they are shown; those that were removed in the meantime are left out."""
    ids = [each.id for each in sessions]
    short_ids = await parts.store.shorten_ids(ids)
    states = await parts.store.list_states(ids)
    return tuple(
        view_session(each, short_ids[each.id], states[each.id])
        for each in sessions
        if each.id in short_ids and each.id in states
    )


def find_replacement(parts: Parts, session: Session, wanted: str | None = None) -> str | None:
    """The model that replaces one that is no longer configured."""
    try:
        parts.models.get_model(session.model)
    except ModelNotFound:
        return parts.models.get_model(wanted).name
    return None


async def view(parts: Parts, session: Session) -> SessionView:
    """One session as it is shown."""
    return (await view_with_state(parts, session))[0]


async def view_with_state(parts: Parts, session: Session) -> tuple[SessionView, StateView]:
    """One session as it is shown, with its state."""
    short_ids = await parts.store.shorten_ids([session.id])
    state = (await parts.store.list_states([session.id]))[session.id]
    shown = view_session(session, short_ids[session.id], state)
    return shown, describe_state(parts, session.id, state)


def describe_state(parts: Parts, session_id: str, state: SessionState) -> StateView:
    """The state of a session, as seen from this process."""
    return view_state(state, parts.store.identity, runs_here=parts.is_running(session_id))


async def _may_see(parts: Parts, session_id: str | None, caller: Caller) -> bool:
    if caller.is_owner:
        return True
    if session_id is None:
        return False
    try:
        session = await parts.store.get_session(session_id)
    except SessionNotFound:
        return False
    return may_see(caller.person, session.person)


def view_state(state: SessionState, process: str, *, runs_here: bool) -> StateView:
    """A state as it is shown to a caller whose calls run in this process (`Store.identity`).

    `runs_here`: this process is at work in the session.
    """
    holder = state.attachment
    return StateView(
        state.running,
        state.waiting,
        state.interrupted,
        holder,
        holder is not None and f"{holder.process}@{holder.host}" != process,
        state.running and not runs_here,
    )


def view_session(session: Session, short_id: str, state: SessionState) -> SessionView:
    """A session as it is shown."""
    return SessionView(**_facts(session, short_id, state))


def list_session(
    session: Session, short_id: str, state: SessionState, hit: Hit | None = None
) -> ListedSession:
    """A session as it is listed."""
    facts = _facts(session, short_id, state)
    return ListedSession(**facts, label=session.listed_name, hit=hit)


_READ_ALL: Final = attrgetter(*Session.__struct_fields__)


def _facts(session: Session, short_id: str, state: SessionState) -> dict[str, Any]:
    usage = session.usage
    return dict(zip(Session.__struct_fields__, _READ_ALL(session), strict=True)) | {
        "short_id": short_id,
        "status": status_of(state),
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


# --- which function does an operation ---------------------------------------------------------

Handler: TypeAlias = Callable[[Parts, P, Caller], Awaitable[R]]

_HANDLERS: Final[dict[str, Callable[[Parts, Any, Caller], Awaitable[Any]]]] = {}


def handles(*operations: Operation[P, R]) -> Callable[[Handler[P, R]], Handler[P, R]]:
    """Register a function as the handler of operations, with the types of their rows."""

    def register(handler: Handler[P, R]) -> Handler[P, R]:
        for each in operations:
            _HANDLERS[each.name] = handler
        return handler

    return register


def list_handled() -> set[str]:
    """The names of the operations whose handlers are loaded."""
    return set(_HANDLERS)


def check_handlers(operations: Iterable[Operation[Any, Any]]) -> None:
    """Load all handlers; a gateway does it at its start. `TypeError` if one is missing."""
    for each in operations:
        find_handler(each)


def find_handler(operation: Operation[P, R]) -> Handler[P, R]:
    """The handler of an operation. Its module is imported at the first call."""
    if operation.name not in _HANDLERS:
        import_module(f"clew.api.handlers.{operation.noun}")
    if operation.name not in _HANDLERS:
        raise TypeError(f"nothing handles {operation.name}: see clew.api.handlers")
    return _HANDLERS[operation.name]
