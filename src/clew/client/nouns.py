"""The smaller nouns of a `Client`: one method for each operation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final

from clew.api import (
    approvals,
    blobs,
    channels,
    commands,
    config,
    cron,
    memory,
    models,
    outbox,
    pairings,
    personalities,
    queue,
    records,
    tokens,
    trash,
)
from clew.api.approvals import DecideApproval, ListApprovals
from clew.api.blobs import BlobFile, GetBlob
from clew.api.channels import ChannelTested, TryChannel
from clew.api.chat import Accepted
from clew.api.commands import CommandReply, ListedCommand, RunCommand
from clew.api.config import ConfigChanged, ConfigShown, SetConfig
from clew.api.cron import AddJob, OneJob
from clew.api.memory import (
    ChunkList,
    FoundMemory,
    GetMemory,
    GetMemoryVersion,
    ListChunks,
    MemoryHistory,
    MemoryHtml,
    MemoryRestored,
    MemoryText,
    MemoryView,
    RenderMemory,
    RestoreMemory,
    SearchMemory,
    WriteMemory,
)
from clew.api.models import GetModel, ModelList, ModelTested, ServersFound, TryModel
from clew.api.operation import NoParams
from clew.api.outbox import ConfirmOutbound, ListOutbox, RetryOutbound
from clew.api.pairings import DecidePairing
from clew.api.personalities import OnePersonality, TryPersonality, UpdatePersonality
from clew.api.queue import (
    DropQueue,
    GetQueued,
    ListQueue,
    Outcome,
    QueuedView,
    RunQueued,
    Waited,
    WaitForAnswer,
)
from clew.api.records import (
    AddRecords,
    BlobStored,
    OpenStored,
    PutBlob,
    RecordChange,
    RecordsAdded,
    Stored,
)
from clew.api.seats import TerminalPlace, Wanted
from clew.api.sessions import ListedSession, SessionList
from clew.api.status import ChannelView
from clew.api.tokens import CreateToken, NewToken, OneToken
from clew.api.trash import (
    Deleted,
    EmptyTrash,
    ListTrash,
    Purged,
    PutInTrash,
    Restored,
    TrashedSessions,
)
from clew.client.noun import Noun, iterate
from clew.core.channels.people import Pairing
from clew.core.chunks import PROMPT_CHUNKS
from clew.core.cron import CronJob
from clew.core.delivery import Outbound, OutboundStatus
from clew.core.memory import MemoryName
from clew.core.models import ModelInfo, Personality, PersonalityEdit
from clew.core.session import OWNER
from clew.core.tokens import Scopes, Token
from clew.core.turn import Approval, ApprovalScope, Decision

TRASH_PAGE: Final = 200


class Blobs(Noun):
    """Files of messages."""

    async def get(self, blob_hash: str, *, session: str) -> BlobFile:
        """A file that a message of the session has, by its SHA-256."""
        return await self._do(blobs.GET, GetBlob(hash=blob_hash, session=session))


class Records(Noun):
    """Sessions that this token has made, and what it writes into them."""

    async def open(self, key: str, *, program: str = "store", title: str | None = None) -> Stored:
        """Open the session of a key; it is made if there is none."""
        return await self._do(records.OPEN, OpenStored(key=key, program=program, title=title))

    async def add(
        self,
        session: str,
        changes: tuple[RecordChange, ...],
        *,
        idempotency_key: str | None = None,
    ) -> RecordsAdded:
        """Apply changes to a session: all of them, or none."""
        params = AddRecords(id=session, changes=changes, idempotency_key=idempotency_key)
        return await self._do(records.ADD, params)

    async def put(self, data: bytes, *, media_type: str = "application/octet-stream") -> BlobStored:
        """Store bytes for a message, whose part names them by their hash."""
        return await self._do(records.PUT, PutBlob(data=data, media_type=media_type))


class Channels(Noun):
    """The channels of a gateway."""

    async def list(self) -> tuple[ChannelView, ...]:
        """List the channels, with their state."""
        return (await self._do(channels.LIST, NoParams())).channels

    async def test(self, name: str, *, account: str | None = None) -> ChannelTested:
        """Ask the platform of a channel whether it knows the channel's account."""
        return await self._do(channels.TEST, TryChannel(name=name, account=account))


class Commands(Noun):
    """Slash commands."""

    async def list(self) -> tuple[ListedCommand, ...]:
        """The commands that the caller can run."""
        return (await self._do(commands.LIST, NoParams())).commands

    async def run(
        self,
        line: str,
        *,
        session: str | None = None,
        key: str | None = None,
        where: TerminalPlace | None = None,
        wanted: Wanted | None = None,
        read_only: bool = False,
        attended: bool = True,
        model: str | None = None,
    ) -> CommandReply:
        """Run a line that begins with a slash, as in a chat of that session and place.

        See `RunCommand` for the rest.
        """
        params = RunCommand(
            line=line,
            session=session,
            key=key,
            where=where,
            wanted=wanted,
            read_only=read_only,
            attended=attended,
            model=model,
        )
        return await self._do(commands.RUN, params)


class Models(Noun):
    """The models that can be named."""

    async def list(self) -> ModelList:
        """List the models, and the one that answers if none is chosen."""
        return await self._do(models.LIST, NoParams())

    async def get(self, name: str | None = None) -> ModelInfo:
        """Get a model by its name, or the one that answers if none is chosen."""
        return await self._do(models.GET, GetModel(name=name))

    async def test(self, name: str | None = None) -> ModelTested:
        """Ask a model one tiny question, to see whether it works."""
        return await self._do(models.TEST, TryModel(name=name))

    async def servers(self) -> ServersFound:
        """Look for servers of models, such as Ollama, on the machine."""
        return await self._do(models.SERVERS, NoParams())


class Configuration(Noun):
    """The configuration of the gateway."""

    async def show(self) -> ConfigShown:
        """Every value that is in effect, and where it comes from; secrets are hidden."""
        return await self._do(config.SHOW, NoParams())

    async def set(self, key: str, value: str | None) -> ConfigChanged:
        """Change the default model or a provider; None removes the value.

        A new address of a provider clears its key.
        """
        return await self._do(config.SET, SetConfig(key=key, value=value))


class Personalities(Noun):
    """Personalities of the agent."""

    async def list(self) -> tuple[Personality, ...]:
        """List the personalities, `default` first."""
        return (await self._do(personalities.LIST, NoParams())).personalities

    async def get(self, personality: str) -> Personality:
        """Get a personality by its id."""
        return await self._do(personalities.GET, OnePersonality(id=personality))

    async def update(self, personality: str, edit: PersonalityEdit) -> Personality:
        """Change a personality; an unknown id makes one."""
        params = UpdatePersonality(id=personality, edit=edit)
        return await self._do(personalities.UPDATE, params)

    async def test(
        self, personality: str, question: str, *, soul: str | None = None
    ) -> ModelTested:
        """Ask one question as a personality, or with another `soul`; nothing is stored."""
        params = TryPersonality(id=personality, question=question, soul=soul)
        return await self._do(personalities.TEST, params)


class Memory(Noun):
    """The memory files. `person` names whose USER.md; left out, it is the owner's."""

    async def get(
        self,
        store: MemoryName = "memory",
        *,
        personality: str | None = None,
        person: str | None = None,
    ) -> MemoryView:
        """Get a file as it is now."""
        params = GetMemory(store=store, personality=personality, person=person)
        return await self._do(memory.GET, params)

    async def write(
        self,
        store: MemoryName = "memory",
        *,
        content: str,
        personality: str | None = None,
        person: str | None = None,
        if_match: str | None = None,
    ) -> MemoryView:
        """Write a whole file; with `if_match`, `StaleMemory` unless that is still its etag."""
        params = WriteMemory(
            store=store,
            content=content,
            personality=personality,
            person=person,
            if_match=if_match,
        )
        return await self._do(memory.WRITE, params)

    async def history(
        self,
        store: MemoryName = "memory",
        *,
        personality: str | None = None,
        person: str | None = None,
    ) -> MemoryHistory:
        """List the versions of a file, newest first."""
        params = GetMemory(store=store, personality=personality, person=person)
        return await self._do(memory.HISTORY, params)

    async def version(
        self,
        number: int,
        store: MemoryName = "memory",
        *,
        personality: str | None = None,
        person: str | None = None,
    ) -> MemoryText:
        """Get the text of a version; 1 is the newest."""
        params = GetMemoryVersion(
            store=store, number=number, personality=personality, person=person
        )
        return await self._do(memory.VERSION, params)

    async def restore(
        self,
        number: int,
        store: MemoryName = "memory",
        *,
        personality: str | None = None,
        person: str | None = None,
        if_match: str | None = None,
    ) -> MemoryRestored:
        """Restore an older version of a file, as a new version."""
        params = RestoreMemory(
            store=store,
            number=number,
            personality=personality,
            person=person,
            if_match=if_match,
        )
        return await self._do(memory.RESTORE, params)

    async def render(self, content: str, store: MemoryName = "memory") -> MemoryHtml:
        """Render a text as safe HTML. Nothing is written."""
        return await self._do(memory.RENDER, RenderMemory(store=store, content=content))

    async def search(
        self,
        q: str,
        *,
        k: int = PROMPT_CHUNKS,
        personality: str | None = None,
        person: str | None = None,
    ) -> FoundMemory:
        """Search the memory; the answer also says what a turn with this question would get."""
        params = SearchMemory(q=q, k=k, personality=personality, person=person)
        return await self._do(memory.SEARCH, params)

    async def chunks(
        self, *, personality: str | None = None, person: str | None = None
    ) -> ChunkList:
        """List the chunks that the memory is searched in."""
        params = ListChunks(personality=personality, person=person)
        return await self._do(memory.CHUNKS, params)


class Approvals(Noun):
    """Tool calls that wait for the owner's decision."""

    async def list(self, session: str | None = None) -> tuple[Approval, ...]:
        """List the waiting calls, oldest first."""
        params = ListApprovals(session=session)
        return (await self._do(approvals.LIST, params)).approvals

    async def decide(
        self,
        approval: str,
        decision: Decision,
        *,
        scope: ApprovalScope = "once",
        reason: str | None = None,
        rule: str | None = None,
    ) -> Approval:
        """Decide about a call; the first decision stays. `reason` is for the model, of a no.

        `rule`: for `always`, the rule in the request, which is then written.
        """
        params = DecideApproval(
            id=approval, decision=decision, scope=scope, reason=reason, rule=rule
        )
        return await self._do(approvals.DECIDE, params)


class Queue(Noun):
    """Messages that wait for their turn."""

    async def list(self, session: str | None = None, *, limit: int = 100) -> tuple[QueuedView, ...]:
        """List the waiting messages, oldest first."""
        params = ListQueue(session=session, limit=limit)
        return (await self._do(queue.LIST, params)).messages

    async def drop(self, session: str, message: str | None = None) -> tuple[str, ...]:
        """Take back all messages that wait in a session, or one of them; returns their ids."""
        return (await self._do(queue.DROP, DropQueue(session=session, id=message))).dropped

    async def get(self, message: str) -> Outcome:
        """A message that was sent, and the turn that answers it."""
        return await self._do(queue.GET, GetQueued(id=message))

    async def run(
        self, message: str, *, attended: bool = True, model: str | None = None
    ) -> Accepted:
        """Run a waiting message that no process has claimed."""
        return await self._do(queue.RUN, RunQueued(id=message, attended=attended, model=model))

    async def wait(self, inbound: str, *, seconds: int = 20) -> Waited:
        """Wait until the turn of a message is over; the answer has no turn if time ran out."""
        return await self._do(queue.WAIT, WaitForAnswer(id=inbound, seconds=seconds))


class Outbox(Noun):
    """Replies to channels."""

    async def list(
        self,
        session: str | None = None,
        *,
        state: OutboundStatus | None = None,
        limit: int = 100,
    ) -> tuple[Outbound, ...]:
        """List deliveries, newest first."""
        params = ListOutbox(session=session, state=state, limit=limit)
        return (await self._do(outbox.LIST, params)).deliveries

    async def retry(self, outbound: str) -> Outbound:
        """Send a reply again whose delivery failed or is uncertain."""
        return await self._do(outbox.RETRY, RetryOutbound(id=outbound))

    async def confirm(self, outbound: str) -> Outbound:
        """Say that a reply whose delivery is uncertain has arrived."""
        return await self._do(outbox.CONFIRM, ConfirmOutbound(id=outbound))


class Tokens(Noun):
    """Credentials of the gateway."""

    async def list(self) -> tuple[Token, ...]:
        """List the tokens, oldest first."""
        return (await self._do(tokens.LIST, NoParams())).tokens

    async def create(
        self,
        name: str,
        scopes: Scopes,
        *,
        person: str = OWNER,
        expires_at: int | None = None,
    ) -> NewToken:
        """Make a token; its secret is in the answer and is not stored."""
        params = CreateToken(name=name, scopes=tuple(scopes), person=person, expires_at=expires_at)
        return await self._do(tokens.CREATE, params)

    async def revoke(self, token: str) -> Token:
        """Revoke a token for good."""
        return await self._do(tokens.REVOKE, OneToken(id=token))


class Pairings(Noun):
    """Guests, and people who ask for access."""

    async def list(self) -> tuple[Pairing, ...]:
        """List guests: first those who wait for a decision, newest first."""
        return (await self._do(pairings.LIST, NoParams())).pairings

    async def approve(self, who: str) -> Pairing:
        """Give a person access, by the code that they were given, or by `channel:id`."""
        return await self._do(pairings.DECIDE, DecidePairing(who=who))

    async def refuse(self, who: str) -> Pairing:
        """Refuse a person; a guest loses access."""
        params = DecidePairing(who=who, decision="refuse")
        return await self._do(pairings.DECIDE, params)


class Cron(Noun):
    """Jobs that a gateway runs on a schedule."""

    async def list(self) -> tuple[CronJob, ...]:
        """List the jobs, by name."""
        return (await self._do(cron.LIST, NoParams())).jobs

    async def add(
        self,
        name: str,
        schedule: str,
        text: str,
        *,
        agent: str = "main",
        session: str = "isolated",
        deliver_to: str | None = None,
        timezone: str | None = None,
        memory: bool = False,
    ) -> CronJob:
        """Add a job: what to ask, and when. `memory`: its runs may write memory."""
        params = AddJob(
            name=name,
            schedule=schedule,
            text=text,
            agent=agent,
            session=session,
            deliver_to=deliver_to,
            timezone=timezone,
            memory=memory,
        )
        return await self._do(cron.ADD, params)

    async def remove(self, name: str) -> CronJob:
        """Remove a job; its sessions stay."""
        return await self._do(cron.REMOVE, OneJob(name=name))

    async def run(self, name: str) -> Accepted:
        """Start a run of a job now."""
        return await self._do(cron.RUN, OneJob(name=name))


class Trash(Noun):
    """Sessions that were deleted and can still be restored."""

    async def list(self, *, limit: int = 20, cursor: str | None = None) -> SessionList:
        """A page of the sessions in the trash, latest deleted first."""
        return await self._do(trash.LIST, ListTrash(limit=limit, cursor=cursor))

    def iter_list(self) -> AsyncIterator[ListedSession]:
        """Every session in the trash, page by page."""
        return iterate(
            lambda cursor: self.list(limit=TRASH_PAGE, cursor=cursor), lambda page: page.sessions
        )

    async def put(
        self,
        ids: Iterable[str] = (),
        *,
        everything: bool = False,
        for_good: bool = False,
        dry_run: bool = False,
    ) -> Deleted:
        """Put several sessions in the trash, or all; one `undo` brings them back."""
        params = PutInTrash(
            ids=tuple(ids), everything=everything, for_good=for_good, dry_run=dry_run
        )
        return await self._do(trash.PUT, params)

    async def restore(self, ids: Iterable[str]) -> Restored:
        """Bring several sessions back."""
        return await self._do(trash.RESTORE, TrashedSessions(ids=tuple(ids)))

    async def undo(self) -> Restored:
        """Bring back what was deleted last; called again, what was deleted before."""
        return await self._do(trash.UNDO, NoParams())

    async def purge(self, ids: Iterable[str]) -> Purged:
        """Remove sessions in the trash for good."""
        return await self._do(trash.PURGE, TrashedSessions(ids=tuple(ids)))

    async def empty(self, *, older_than: int | None = None) -> Purged:
        """Remove everything in the trash for good, or what has been there for `older_than` ms."""
        return await self._do(trash.EMPTY, EmptyTrash(older_than=older_than))
