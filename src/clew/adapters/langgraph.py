"""The checkpoints of LangGraph, kept in a clew store.

    graph = builder.compile(checkpointer=ClewSaver("sqlite:///home/me/sessions.db"))
    graph.invoke({"messages": "Hello"}, {"configurable": {"thread_id": "7"}})

A thread is a session. A checkpoint, and the writes of a task, are notes in it: each with an id that
names its namespace, its checkpoint and its task, in a turn of its own. What is new in a list of
messages of the root graph is said in the session too, once, so that people can read and search it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import quote

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from clew.adapters.framework import FrameworkStore, check_id, pack, part_of, turn_of, unpack
from clew.core.changes import AddMessage, Change, EraseTurn
from clew.core.keys import new_id
from clew.core.message import Draft, Message, Role, ToolCall
from clew.core.session import Session
from clew.core.text import to_json
from clew.core.usage import Usage
from clew.errors import Conflict, InvalidInput, StoreClosed
from clew.ports import Store

FRAMEWORK: Final = "langgraph"
CHECKPOINT: Final = "langgraph_checkpoint"
WRITE: Final = "langgraph_write"

FEW: Final = 8
MANY: Final = 100
"""Notes that are read at once: first few, which are enough for the newest checkpoint."""

COUNTERS: Final = "counters_since_delta_snapshot"
"""In a checkpoint's metadata: the channels of which only changes are kept, with their counts."""

T = TypeVar("T")

# In a class with a method `list`, that name is no type.
Tuples: TypeAlias = "list[CheckpointTuple]"
Dumped: TypeAlias = "list[str]"
Names: TypeAlias = "list[str]"
Adds: TypeAlias = "list[AddMessage]"


class Kept(NamedTuple):
    """A checkpoint as it is kept: its note, and the notes of the writes that belong to it."""

    checkpoint: Message | None
    writes: tuple[Message, ...]

    @property
    def turns(self) -> tuple[str, ...]:
        """The turns of the notes."""
        notes = self.writes if self.checkpoint is None else (self.checkpoint, *self.writes)
        return tuple(dict.fromkeys(each.turn_id for each in notes if each.turn_id is not None))


class ClewSaver(BaseCheckpointSaver[int]):
    """A checkpointer: the thread `<id>` is the session with the key `langgraph:<id>`.

    `store` is an open store or the URL of one. With a URL the saver has a thread of its own, in
    which it opens the store, and every method can be called from everywhere; `close` ends it. With
    an open store, make the saver in the event loop of that store; there call the async methods, and
    the others from other threads only.
    """

    def __init__(self, store: Store | str, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._sessions = FrameworkStore(store, FRAMEWORK)
        self._loop = _LoopThread() if isinstance(store, str) else _Loop(asyncio.get_running_loop())

    # --- reading --------------------------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, else the newest of its namespace."""
        return await self._loop.hand_over(lambda: self._get_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # the framework's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first: of a thread and namespace, of a thread, or of all threads."""
        for each in await self._loop.hand_over(lambda: self._list(config, filter, before, limit)):
            yield each

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes of channels of which only changes are kept, since their last whole value."""
        base = super().aget_delta_channel_history
        return await self._loop.hand_over(lambda: base(config=config, channels=channels))

    # --- writing --------------------------------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; one with the same id is replaced."""
        return await self._loop.hand_over(
            lambda: self._put(config, checkpoint, metadata, new_versions)
        )

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep the writes of a task, each once; errors and interrupts replace those before."""
        await self._loop.hand_over(lambda: self._put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Put the thread's session in clew's trash."""
        await self._loop.hand_over(lambda: self._delete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase the checkpoints of these runs, their writes, and what was said with them.

        It looks through all threads.
        """
        await self._loop.hand_over(lambda: self._delete_for_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Fork a thread: nothing is copied. `Conflict` if the target has a session already."""
        await self._loop.hand_over(lambda: self._copy_thread(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erase all checkpoints but the newest of each namespace; what was said stays.

        Those before it that are needed for channels of which only changes are kept stay too. With
        `delete` the threads' sessions go to the trash.
        """
        await self._loop.hand_over(lambda: self._prune(thread_ids, strategy))

    async def aclose(self) -> None:
        """Refuse later calls; closes the store too if it was opened here."""
        await self._loop.hand_over(self._sessions.close)
        self._loop.end()

    # --- the same for callers that do not wait in an event loop ---------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `aget_tuple`."""
        return self._loop.wait_for(lambda: self._get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002  # the framework's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """See `alist`."""
        yield from self._loop.wait_for(lambda: self._list(config, filter, before, limit))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `aput`."""
        return self._loop.wait_for(lambda: self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See `aput_writes`."""
        self._loop.wait_for(lambda: self._put_writes(config, writes, task_id, task_path))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `aget_delta_channel_history`."""
        read = super().aget_delta_channel_history
        return self._loop.wait_for(lambda: read(config=config, channels=channels))

    def delete_thread(self, thread_id: str) -> None:
        """See `adelete_thread`."""
        self._loop.wait_for(lambda: self._delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `adelete_for_runs`."""
        self._loop.wait_for(lambda: self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `acopy_thread`."""
        self._loop.wait_for(lambda: self._copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `aprune`."""
        self._loop.wait_for(lambda: self._prune(thread_ids, strategy))

    def close(self) -> None:
        """See `aclose`."""
        self._loop.wait_for(self._sessions.close)
        self._loop.end()

    # --- how checkpoints are found --------------------------------------------------------------

    async def _get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id, namespace = _place_of(config)
        session = await self._sessions.find(_key(thread_id))
        if session is None:
            return None
        wanted = get_checkpoint_id(config)
        prefix = _space(namespace) if wanted is None else _name(namespace, wanted)
        async for kept in self._read(session, prefix):
            if kept.checkpoint is not None:
                return self._tuple_of(thread_id, kept)
        return None

    async def _list(
        self,
        config: RunnableConfig | None,
        matching: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Tuples:
        found: Tuples = []
        async for session, prefix in self._scopes(config):
            ending = None
            if before is not None and (last := get_checkpoint_id(before)) is not None:
                ending = last
            async for kept in self._read(session, prefix):
                if limit is not None and len(found) >= limit:
                    return found
                if kept.checkpoint is None:
                    continue
                each = self._tuple_of(_thread_of(session), kept)
                is_early = ending is None or each.checkpoint["id"] < ending
                if is_early and _matches(each.metadata, matching):
                    found.append(each)
        return found

    async def _scopes(self, config: RunnableConfig | None) -> AsyncIterator[tuple[Session, str]]:
        """The sessions to look through, each with the beginning of the ids that are wanted."""
        if config is None:
            async for session in self._sessions.list_sessions():
                yield session, _CHECKPOINTS
            return
        given = config["configurable"]
        session_or_none = await self._sessions.find(_key(given["thread_id"]))
        if session_or_none is None:
            return
        namespace, wanted = given.get("checkpoint_ns"), get_checkpoint_id(config)
        if namespace is None:
            yield session_or_none, _CHECKPOINTS
        elif wanted is None:
            yield session_or_none, _space(namespace)
        else:
            yield session_or_none, _name(namespace, wanted)

    async def _read(self, session: Session, prefix: str) -> AsyncIterator[Kept]:
        """Checkpoints whose id begins so, the greatest first."""
        async for name, notes in self._groups(session, prefix):
            first = [each for each in notes if each.external_id == name]
            rest = tuple(each for each in notes if each.external_id != name)
            yield Kept(first[0] if first else None, rest)

    async def _groups(
        self, session: Session, prefix: str
    ) -> AsyncIterator[tuple[str, Sequence[Message]]]:
        """Notes by the name of their checkpoint. The last group of a page may not be whole."""
        store = await self._sessions.get()
        waiting: list[Message] = []
        before: str | None = None
        size = FEW
        while True:
            page = await store.list_external(session.id, prefix, before=before, limit=size)
            waiting += page
            groups = [(name, list(notes)) for name, notes in groupby(waiting, _checkpoint_name)]
            is_last = len(page) < size
            for name, notes in groups if is_last else groups[:-1]:
                yield name, notes
            if is_last:
                return
            waiting, before, size = groups[-1][1], page[-1].external_id, MANY

    def _tuple_of(self, thread_id: str, kept: Kept) -> CheckpointTuple:
        assert kept.checkpoint is not None  # noqa: S101  # the callers have looked
        part = part_of(kept.checkpoint, CHECKPOINT)
        assert part is not None  # noqa: S101  # this adapter has written it
        writes = [part_of(each, WRITE) or {} for each in kept.writes]
        writes.sort(key=lambda each: writes_sort_key(each["path"], each["task"], each["index"]))
        parent = part["parent"]
        return CheckpointTuple(
            config=_config(thread_id, part["namespace"], part["id"]),
            checkpoint=self._load(part["checkpoint"]),
            metadata=self._load(part["metadata"]),
            parent_config=parent and _config(thread_id, part["namespace"], parent),
            pending_writes=[
                cast("PendingWrite", (each["task"], each["channel"], self._load(each["value"])))
                for each in writes
            ],
        )

    def _dump(self, value: Any) -> Dumped:
        kind, data = self.serde.dumps_typed(value)
        return [kind, pack(data)]

    def _load(self, dumped: Sequence[str]) -> Any:
        kind, data = dumped
        return self.serde.loads_typed((kind, unpack(data)))

    # --- how they are written -------------------------------------------------------------------

    async def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id, namespace = _place_of(config)
        session = await self._sessions.begin(_key(thread_id), thread_id)
        said = [] if namespace else await self._new_messages(session, checkpoint, new_versions)
        said_in = new_id() if said else None
        all_metadata = get_checkpoint_metadata(config, metadata)
        part = {
            "type": CHECKPOINT,
            "namespace": namespace,
            "id": checkpoint["id"],
            "parent": get_checkpoint_id(config),
            "run": all_metadata.get("run_id"),
            "said": said_in,
            "checkpoint": self._dump(checkpoint),
            "metadata": self._dump(all_metadata),
        }
        note = Draft(role="note", external_id=_name(namespace, checkpoint["id"]), parts=(part,))
        talk = turn_of(*said, turn_id=said_in) if said else []
        await self._replace(session, [*talk, *turn_of(note)], note)
        return _config(thread_id, namespace, checkpoint["id"])

    async def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        thread_id, namespace = _place_of(config)
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id is None:
            raise InvalidInput("Writes belong to a checkpoint, and the config names none.")
        session = await self._sessions.begin(_key(thread_id), thread_id)
        regular: list[AddMessage] = []
        for place, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, place)
            part = {
                "type": WRITE,
                "task": task_id,
                "path": task_path,
                "index": index,
                "channel": channel,
                "value": self._dump(value),
            }
            name = f"{_name(namespace, checkpoint_id)}{quote(task_id, safe='')}/{index}"
            note = Draft(role="note", external_id=name, parts=(part,))
            if index >= 0:
                regular.append(AddMessage(note, once=True))
            else:
                await self._replace(session, turn_of(note), note)
        if regular:
            store = await self._sessions.get()
            await store.record(session.id, None, *turn_of(*regular))

    async def _replace(self, session: Session, changes: Sequence[Change], note: Draft) -> None:
        """Record changes that add a note; one that has its id already is erased."""
        store = await self._sessions.get()
        erase: list[Change] = []
        while True:
            try:
                await store.record(session.id, None, *erase, *changes)
            except Conflict:
                assert note.external_id is not None  # noqa: S101  # notes of this adapter have ids
                found = await store.find_message(session.id, note.external_id)
                erase = [] if found is None or found.turn_id is None else [EraseTurn(found.turn_id)]
            else:
                return

    async def _new_messages(
        self, session: Session, checkpoint: Checkpoint, new_versions: ChannelVersions
    ) -> Adds:
        """What the changed channels say that the session does not have yet."""
        store = await self._sessions.get()
        said: list[AddMessage] = []
        for channel in new_versions:
            new: list[AddMessage] = []
            messages = _messages_in(checkpoint["channel_values"].get(channel))
            for place in reversed(range(len(messages))):
                message = messages[place]
                name = f"m/{quote(message.id or f'{channel} {place}', safe='')}"
                if await store.find_message(session.id, name) is not None:
                    break
                new.append(AddMessage(draft_of(message, name), once=True))
            said += reversed(new)
        return said

    async def _delete_thread(self, thread_id: str) -> None:
        session = await self._sessions.find(_key(thread_id))
        if session is not None:
            await self._sessions.delete([session])

    async def _delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = set(run_ids)
        async for session in self._sessions.list_sessions():
            turns: list[str] = []
            async for kept in self._read(session, _CHECKPOINTS):
                part = kept.checkpoint and part_of(kept.checkpoint, CHECKPOINT)
                if part and part["run"] in runs:
                    turns += kept.turns
                    turns += [part["said"]] if part["said"] else []
            await self._erase(session, turns)

    async def _copy_thread(self, source_id: str, target_id: str) -> None:
        source = await self._sessions.find(_key(source_id))
        if source is None:
            return
        if await self._sessions.find(_key(target_id)) is not None:
            raise Conflict(f"There already is a thread {target_id}. Delete it first.")
        await self._sessions.fork(source, _key(check_id("thread", target_id)), target_id)

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in {"keep_latest", "delete"}:
            raise InvalidInput(f'There is no strategy "{strategy}": keep_latest or delete.')
        for thread_id in thread_ids:
            session = await self._sessions.find(_key(thread_id))
            if session is None:
                continue
            if strategy == "delete":
                await self._sessions.delete([session])
            else:
                await self._erase(session, await self._superseded(session))

    async def _superseded(self, session: Session) -> Names:
        """The turns of checkpoints that no newest checkpoint of a namespace needs."""
        turns: list[str] = []
        needed: dict[str, str | None] = {}  # by namespace: the ancestor to keep next
        missing: dict[str, set[str]] = {}  # and the channels that are not whole yet
        async for kept in self._read(session, _CHECKPOINTS):
            part = kept.checkpoint and part_of(kept.checkpoint, CHECKPOINT)
            if not part:
                turns += kept.turns
                continue
            space = part["namespace"]
            if space not in missing:
                counters = self._load(part["metadata"]).get(COUNTERS) or {}
                missing[space] = set(counters)
            elif not missing[space] or part["id"] != needed[space]:
                turns += kept.turns
                continue
            missing[space] -= set(self._load(part["checkpoint"])["channel_values"])
            needed[space] = part["parent"]
        return turns

    async def _erase(self, session: Session, turns: Iterable[str]) -> None:
        """Erase turns in one commit; those that somebody else has erased are left out."""
        store = await self._sessions.get()
        changes = [EraseTurn(each) for each in dict.fromkeys(turns)]
        if changes:
            await store.record(session.id, None, *changes)


def draft_of(message: BaseMessage, name: str) -> Draft:
    """What people read of a message."""
    role: Role = "user" if message.type in ("human", "system", "developer") else "assistant"
    calls: tuple[ToolCall, ...] = ()
    usage = model = None
    if isinstance(message, AIMessage):
        calls = tuple(
            ToolCall(each["id"] or "", each["name"], to_json(each["args"]))
            for each in message.tool_calls
        )
        usage = _usage_of(message)
        model = message.response_metadata.get("model_name")
    if isinstance(message, ToolMessage):
        return Draft(
            role="tool",
            content=str(message.text),
            tool_call_id=message.tool_call_id,
            tool_name=message.name,
            is_error=message.status == "error",
            external_id=name,
        )
    return Draft(
        role=role,
        content=str(message.text),
        tool_calls=calls,
        model=model if isinstance(model, str) else None,
        usage=usage,
        external_id=name,
    )


def _usage_of(message: AIMessage) -> Usage | None:
    spent = message.usage_metadata
    if spent is None:
        return None
    details = spent.get("input_token_details") or {}
    read, made = details.get("cache_read", 0), details.get("cache_creation", 0)
    return Usage(
        input_tokens=max(0, spent["input_tokens"] - read - made),
        output_tokens=spent["output_tokens"],
        cache_read_tokens=read,
        cache_creation_tokens=made,
        cost=None,
        api_calls=1,
    )


def _messages_in(value: Any) -> list[BaseMessage]:
    """The messages of a channel, if its value is a list of messages."""
    value = getattr(value, "value", value)  # a snapshot of a channel of which changes are kept
    if isinstance(value, list) and value and all(isinstance(each, BaseMessage) for each in value):
        return value
    return []


def _matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    return all(metadata.get(name) == value for name, value in (wanted or {}).items())


# --- names ----------------------------------------------------------------------------------------

_CHECKPOINTS = "c/"


def _key(thread_id: object) -> str:
    return f"{FRAMEWORK}:{check_id('thread', str(thread_id))}"


def _thread_of(session: Session) -> str:
    return str(session.origin["id"])


def _place_of(config: RunnableConfig) -> tuple[str, str]:
    """The thread and the namespace that a config names."""
    given = config["configurable"]
    return str(given["thread_id"]), given.get("checkpoint_ns") or ""


def _space(namespace: str) -> str:
    return f"{_CHECKPOINTS}{quote(namespace, safe=':|')}/"


def _name(namespace: str, checkpoint_id: str) -> str:
    return f"{_space(namespace)}{quote(checkpoint_id, safe='')}/"


def _checkpoint_name(note: Message) -> str:
    """The name of the checkpoint that a note belongs to."""
    return "/".join((note.external_id or "").split("/")[:3]) + "/"


def _config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


# --- event loops ----------------------------------------------------------------------------------


class _Loop:
    """The event loop in which a store is open."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def hand_over(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run work in that loop, and wait for it in this one."""
        if asyncio.get_running_loop() is self._loop:
            return await work()
        return await asyncio.wrap_future(self._submit(work))

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run work in that loop from another thread."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            raise InvalidInput(
                "In the event loop of the store, call the async method: it has an `a` in front."
            )
        return self._submit(work).result()

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        if self._loop.is_closed():
            raise StoreClosed("This saver is closed.")
        return asyncio.run_coroutine_threadsafe(work(), self._loop)

    def end(self) -> None:
        """The loop is the caller's."""


class _LoopThread(_Loop):
    """A thread with an event loop of its own."""

    def __init__(self) -> None:
        super().__init__(asyncio.new_event_loop())
        self._thread = threading.Thread(target=self._run, name="clew-langgraph", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop the loop and wait for its thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()
