"""Replies to channels: each committed with the answer that it carries, then delivered.

Delivery takes them from the outbox to the channels: in order per key, each at most once.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from clew.core.changes import AddMessage, Change, EndTurn, Send, WaitForApproval
from clew.core.channels.approvals import ASKED_APART, asked_id, choices_for, question_text
from clew.core.channels.replies import (
    Attached,
    Choice,
    Parcel,
    Piece,
    ReplyTo,
    chat_of,
    conversation_of,
    is_group,
    is_said,
    reply_to_peer,
)
from clew.core.channels.send_policy import SendRules, decide_send
from clew.core.delivery import NewOutbound, Outbound
from clew.core.live_events import Notice
from clew.core.session import OWNER, SendPolicy
from clew.errors import (
    BlobNotFound,
    ClewError,
    FormatRefused,
    NotFound,
    ReplyDelayed,
    ReplyRefused,
    StoreClosed,
)
from clew.ports import AsksWithButtons, Channel, Clock, EditsMessages, SendsFiles, Store
from clew.runtime.commits import whole
from clew.runtime.event_log import EventLog
from clew.runtime.streams import Streams
from clew.runtime.watch import Bus

FAILED = "That did not work: {}"
FAILED_FOR_GUESTS = "That did not work. The owner of this clew can see why; try again later."
"""What guests are told: the reason may contain keys, quotas and the configuration."""
RECENT = 100
"""How many deliveries of a session are searched for a repetition."""

AT_ONCE: Final = 8
"""Replies of one account that are sent at the same time; one at a time per conversation."""

FIRST_PAUSE: Final = 1_000
LONGEST_PAUSE: Final = 600_000
GIVE_UP: Final = 86_400_000
"""In milliseconds: the first and longest pause between attempts (it doubles), when to give up."""

LAG: Final = 60_000
"""Milliseconds that the clock of a store may be behind this one."""

NOWHERE: Final = (
    "{} has had no account {} for a day, here or in another gateway on this store. Configure it "
    "under [channels], then send this reply again."
)
CHOICES: Final = "choices"
"""The type of the part of a reply that has the buttons of a question."""

STOPPED: Final = "clew was stopped while it was being sent"
DOUBTFUL: Final = "A reply to {} may not have arrived: {}. Look there before you send it again."


class _Words(NamedTuple):
    """A text to deliver for a turn. The delivery of a question has a fixed id."""

    text: str = ""
    turn_id: str | None = None
    id: str | None = None
    parts: tuple[dict[str, Any], ...] = ()

    @property
    def is_question(self) -> bool:
        return self.id is not None


class Replies:
    """Adds the replies to the commits of turns. `bell` rings when there is something to deliver."""

    def __init__(self, store: Store, clock: Clock, rules: SendRules) -> None:
        self.bell = asyncio.Event()
        self._store = store
        self._clock = clock
        self._rules = rules

    def change(self, rules: SendRules) -> None:
        """Decide by another send policy from now on."""
        self._rules = rules

    async def answer(
        self,
        reply_to: ReplyTo,
        session_id: str,
        head: int,
        changes: tuple[Change, ...],
        *,
        asks: bool = False,
    ) -> tuple[Change, ...]:
        """The changes of a turn, plus the replies to deliver; `head` is the head before them.

        `asks`: the owner is there to approve tool calls; without it no question is sent.
        """
        added: list[Change] = []
        if reply_to.is_fetched:
            return changes
        for change in changes:
            if isinstance(change, AddMessage):
                head += 1
            if isinstance(change, WaitForApproval):
                words = self._ask(change)
            else:
                words = _words_of(change, is_owners=reply_to.person in (None, OWNER))
            if not (words.text.strip() or words.parts) or (words.is_question and not asks):
                continue
            to = reply_to
            if words.is_question and is_group(reply_to) and reply_to.sender is not None:
                # A group must not read what the owner is asked about.
                to = reply_to_peer(reply_to.channel, reply_to.account, "dm", reply_to.sender)
                apart = _Words(ASKED_APART, words.turn_id)
                added.append(await self._make(reply_to, session_id, apart, None))
            if not words.is_question and await self._is_said(reply_to, session_id, words.text):
                continue
            seq = head if isinstance(change, AddMessage) else None
            added.append(await self._make(to, session_id, words, seq))
        return (*changes, *added)

    async def _make(self, to: ReplyTo, session_id: str, words: _Words, seq: int | None) -> Send:
        return Send(
            NewOutbound(
                id=words.id or secrets.token_hex(8),
                key=to.key,
                channel=to.channel,
                account=to.account,
                address=to.address,
                content=words.text,
                parts=words.parts,
                turn_id=words.turn_id,
                seq=seq,
                withheld=await self._is_withheld(to, session_id),
            )
        )

    def _ask(self, change: WaitForApproval) -> _Words:
        """A question is always sent: it is never a repetition of an earlier one."""
        wait_ms = change.expires_at - self._clock()
        text = question_text(change.tool_name, change.request, wait_ms=wait_ms)
        choices = choices_for(change.approval_id, change.request)
        parts = ({"type": CHOICES, "choices": msgspec.to_builtins(choices)},)
        return _Words(text, change.turn_id, asked_id(change.approval_id), parts)

    def ring(self, changes: tuple[Change, ...]) -> None:
        """Wake the deliverer, once the changes are committed."""
        if any(isinstance(each, Send) for each in changes):
            self.bell.set()

    async def _is_said(self, reply_to: ReplyTo, session_id: str, text: str) -> bool:
        if not reply_to.is_retry:
            return False
        rows = await self._store.list_outbound(session_id=session_id, limit=RECENT)
        return is_said(reply_to, text, rows, self._clock())

    async def _is_withheld(self, reply_to: ReplyTo, session_id: str) -> bool:
        """Whether replies are withheld now: `/send off` may have come during the turn."""
        session = await self._store.get_session(session_id)
        return self.is_denied(reply_to, session.key, override=session.send_policy)

    def is_denied(self, reply_to: ReplyTo, key: str, *, override: SendPolicy | None = None) -> bool:
        """Whether the send policy denies delivery; `override` is the session's own setting."""
        verdict = decide_send(self._rules, conversation_of(reply_to, key), override=override)
        return verdict.decision == "deny"


def _words_of(change: Change, *, is_owners: bool) -> _Words:
    """The text to deliver for a change: an answer, or why there is none."""
    if isinstance(change, AddMessage):
        draft = change.draft
        is_answer = draft.role == "assistant" and not draft.tool_calls
        if not is_answer:
            return _Words()
        files = tuple(each for each in draft.parts if isinstance(each.get("blob"), str))
        return _Words(draft.content, change.turn_id, parts=files)
    if isinstance(change, EndTurn) and change.status == "failed":
        why = FAILED.format(change.error or "nobody knows why.")
        return _Words(why if is_owners else FAILED_FOR_GUESTS, change.turn_id)
    return _Words()


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds: the limit for one message, the pause between checks, the wait at the end."""

    patience: float = 60.0
    poll: float = 1.0
    inspect: float = 30.0
    grace: float = 5.0


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a row's receipt: how much of the reply has arrived, and the channel's data."""

    characters: int = 0
    parts: tuple[dict[str, Any], ...] = ()
    files: int = 0


class Deliverer:
    """Sends the replies that are due. `run` it as a task, and end it with `close`."""

    def __init__(
        self,
        store: Store,
        channels: Sequence[Channel],
        *,
        clock: Clock,
        bell: asyncio.Event,
        bus: Bus | None = None,
        events: EventLog | None = None,
        streams: Streams | None = None,
        settings: DeliverySettings | None = None,
    ) -> None:
        self._store = store
        self._channels = {(each.name, each.account): each for each in channels}
        self._clock = clock
        self._bell = bell
        self._bus = bus
        self._events = events
        self._settings = settings or DeliverySettings()
        self._claimant = f"{store.identity}#delivery-{secrets.token_hex(4)}"
        self._streams = streams
        self._flying: dict[asyncio.Task[None], tuple[str, str]] = {}
        self._due: dict[str, int] = {}
        self._pauses: dict[tuple[str, ...], int] = {}
        """Until when an account or a chat sends nothing: the platform said so."""
        self.stranded: dict[tuple[str, str], int] = {}
        """How many replies wait for an account that is not configured here."""
        self._closing = False
        self._bug: BaseException | None = None

    # --- the loop -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver until `close`. Retries while the store is busy.

        Other errors are raised; another `run` continues with the other replies.
        """
        inspected: float | None = None
        loop = asyncio.get_running_loop()
        while not self._closing:
            self._bell.clear()
            if self._bug is not None:
                bug, self._bug = self._bug, None
                raise bug
            pulse: int | None = None
            try:
                if inspected is None or loop.time() - inspected >= self._settings.inspect:
                    await self.doubt_the_dead()
                    await self.look_for_stranded()
                    inspected = loop.time()
                await self._begin_due()
                pulse = await self._store.pulse()
            except StoreClosed:
                return
            except ClewError:
                await asyncio.sleep(self._settings.poll)
            await self._wait(pulse, until=(inspected or 0) + self._settings.inspect)

    async def _begin_due(self) -> None:
        now = self._clock()
        self._due = {row: at for row, at in self._due.items() if now - at < LAG}
        self._pauses = {what: until for what, until in self._pauses.items() if until > now}
        for free, places in self._list_free().items():
            if self._closing:
                return
            claiming = self._store.claim_outbound(self._claimant, places=places, limit=free)
            rows = await whole(claiming)
            if len(rows) == free:
                self._bell.set()  # the rest may belong to other accounts
            for row in rows:
                task = asyncio.create_task(self._carry(row), name=f"delivery {row.id}")
                self._flying[task] = (row.channel, row.account)
                self._due.pop(row.id, None)
                task.add_done_callback(self._landed)

    def _list_free(self) -> dict[int, list[tuple[str, str]]]:
        """The accounts that may send now, by how many replies each: few claims serve many."""
        found: dict[int, list[tuple[str, str]]] = {}
        for place in self._channels:
            free = AT_ONCE - sum(each == place for each in self._flying.values())
            if free > 0 and place not in self._pauses:
                found.setdefault(free, []).append(place)
        return found

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._flying.pop(task, None)
        if not task.cancelled():
            self._bug = task.exception() or self._bug
        self._bell.set()

    async def _wait(self, pulse: int | None, *, until: float) -> None:
        """Wait for the bell, for a reply that becomes due, or for a write of another process."""
        loop = asyncio.get_running_loop()
        while not self._closing and loop.time() < until:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._bell.wait()
                return
            if any(at <= self._clock() for at in (*self._due.values(), *self._pauses.values())):
                return  # the store's clock may be behind: then look again
            with contextlib.suppress(ClewError):
                if pulse is None or await self._store.pulse() != pulse:
                    return

    def _pause(self) -> float:
        now = self._clock()
        times = (*self._due.values(), *self._pauses.values())
        soonest = min((at for at in times if at > now), default=None)
        poll = self._settings.poll
        return poll if soonest is None else min(poll, (soonest - now) / 1000)

    async def close(self) -> None:
        """Start nothing more and wait for sends in progress; unfinished ones become uncertain."""
        self._closing = True
        self._bell.set()
        flying = set(self._flying)
        if flying:
            _, late = await asyncio.wait(flying, timeout=self._settings.grace)
            for task in late:
                task.cancel()
            await asyncio.wait(flying)

    # --- after a crash --------------------------------------------------------------------------

    async def doubt_the_dead(self) -> tuple[Outbound, ...]:
        """Mark the replies that a dead process was sending as uncertain, and return them."""
        rows = await self._store.list_outbound(status="sending", limit=1_000)
        claimants = dict.fromkeys(row.claimant for row in rows if row.claimant is not None)
        doubtful: list[Outbound] = []
        for claimant in claimants:
            if claimant != self._claimant and not await self._store.is_living(claimant):
                doubtful += await self._store.doubt_outbound(claimant)
        for row in doubtful:
            await self._settle_doubt(row, STOPPED)
        return tuple(doubtful)

    # --- accounts that are not configured -------------------------------------------------------

    async def look_for_stranded(self) -> None:
        """Count the replies that no channel here sends; after a day they have failed.

        Another gateway on this store may have their account, so they wait until then.
        """
        rows = await self._store.list_stranded(tuple(self._channels), limit=1_000)
        now = self._clock()
        self.stranded = {}
        for row in rows:
            if now - row.created_at >= GIVE_UP:
                await self._settle(row, "failed", error=NOWHERE.format(row.channel, row.account))
            else:
                place = (row.channel, row.account)
                self.stranded[place] = self.stranded.get(place, 0) + 1

    # --- one reply ------------------------------------------------------------------------------

    async def _carry(self, row: Outbound) -> None:
        try:
            await self._deliver(row)
        except Exception as error:
            # A bug in the channel or in clew: without this the row would stay as it is forever.
            await self._settle(row, "uncertain", error=f"{type(error).__name__}: {error}")
            raise

    async def _deliver(self, row: Outbound) -> None:
        """Send the next part of a reply, and store the result."""
        until = self._pauses.get(chat_of(row)) or self._pauses.get((row.channel, row.account))
        if until is not None and until > self._clock():
            await self._settle(row, "pending", error=row.error, due_at=until)
            self._due[row.id] = until
            return
        progress = read_progress(row)
        channel = self._channels[row.channel, row.account]
        try:
            parcel = await self._pack(channel, row, progress)
        except ClewError as error:
            await self._try_later(row, ReplyDelayed(f"It can't be read from the store: {error}"))
            return
        except Exception as error:  # noqa: BLE001  # a channel's library may raise anything
            await self._settle(row, "failed", error=f"It can't be cut into messages: {error!r}")
            return
        if parcel is None:
            await self._settle(row, "sent")
            return
        await whole(await self._attempt(channel, *parcel, progress))

    async def _pack(
        self, channel: Channel, row: Outbound, progress: Progress
    ) -> tuple[Parcel, Piece] | None:
        """The next message of a reply: a piece of its text, then each of its files."""
        text, files = row.content, _list_files(row)
        if files and not isinstance(channel, SendsFiles):
            text = "\n\n".join([*([text] if text.strip() else []), *map(_word_file, files)])
            files = ()
        part = len(progress.parts) + 1
        piece = _find_piece(channel, text, progress.characters)
        if piece is not None:
            rest = text[progress.characters + len(piece.source) :]
            is_last = not rest.strip() and not files
            return Parcel(outbound=row, text=piece.sent, part=part, is_last=is_last), piece
        if progress.files >= len(files):
            return None
        is_last = progress.files + 1 == len(files)
        file = await self._get_file(files[progress.files])
        return Parcel(outbound=row, text="", part=part, is_last=is_last, file=file), Piece("", "")

    async def _get_file(self, part: dict[str, Any]) -> Attached:
        name = part.get("name")
        try:
            blob = await self._store.get_blob(str(part["blob"]))
        except BlobNotFound:
            return Attached("text/plain", b"This file is no longer in the store.", "missing.txt")
        media_type = str(part.get("media_type") or blob.media_type)
        return Attached(media_type, blob.data, name if isinstance(name, str) else None)

    async def _attempt(
        self, channel: Channel, parcel: Parcel, piece: Piece, progress: Progress
    ) -> Coroutine[Any, Any, None]:
        """Send a message; returns the result to store, even if cancelled."""
        row = parcel.outbound
        try:
            async with asyncio.timeout(self._settings.patience):
                said = await self._send(channel, parcel, piece)
        except ReplyRefused as error:
            return self._settle(row, "failed", error=str(error))
        except ReplyDelayed as error:
            return self._try_later(row, error)
        except TimeoutError:
            return self._settle_doubt(row, f"no answer in {self._settings.patience:g} seconds")
        except asyncio.CancelledError:
            return self._settle_doubt(row, STOPPED)
        except Exception as error:  # noqa: BLE001  # a channel's library may raise anything
            return self._settle_doubt(row, f"{type(error).__name__}: {error}")
        return self._note_progress(parcel, piece, progress, said)

    async def _send(self, channel: Channel, parcel: Parcel, piece: Piece) -> dict[str, Any]:
        if parcel.file is not None and isinstance(channel, SendsFiles):
            return await channel.send_file(parcel)
        if not parcel.text.strip():
            return {}  # no platform accepts a blank message
        shown = None if self._streams is None else await self._streams.take(parcel)
        try:
            return await _say(channel, parcel, shown)
        except FormatRefused:
            plain = msgspec.structs.replace(parcel, text=piece.source, is_plain=True)
            return await _say(channel, plain, shown)

    async def _note_progress(
        self, parcel: Parcel, piece: Piece, before: Progress, said: dict[str, Any]
    ) -> None:
        """Store that one more part has arrived, so that it is not sent again after a crash."""
        now = Progress(
            before.characters + len(piece.source),
            (*before.parts, said),
            before.files + (parcel.file is not None),
        )
        status: Any = "sent" if parcel.is_last else "pending"
        await self._settle(parcel.outbound, status, receipt=msgspec.to_builtins(now))

    async def _try_later(self, row: Outbound, error: ReplyDelayed) -> None:
        now = self._clock()
        if now - row.created_at >= GIVE_UP:
            await self._settle(row, "failed", error=f"{error} (tried for a day)")
            return
        failures = max(1, row.attempts - len(read_progress(row).parts))
        pause = min(FIRST_PAUSE << min(failures - 1, 20), LONGEST_PAUSE)
        if error.after is not None:
            pause = max(int(error.after * 1000), 0)
        if error.stops != "reply":
            what = chat_of(row) if error.stops == "chat" else (row.channel, row.account)
            self._pauses[what] = now + pause
        self._due[row.id] = now + pause
        await self._settle(row, "pending", error=str(error), due_at=now + pause)

    async def _settle_doubt(self, row: Outbound, why: str) -> None:
        channel = self._channels.get((row.channel, row.account))
        if channel is not None and channel.may_repeat(row):
            await self._try_later(row, ReplyDelayed(why))
            return
        await self._settle(row, "uncertain", error=why)
        if self._bus is not None and row.session_id is not None:
            self._bus.publish(row.session_id, Notice(DOUBTFUL.format(row.channel, why)))

    async def _settle(self, row: Outbound, status: Any, **what: Any) -> None:
        """Store the result, however long the store is busy: only this process knows it."""
        while True:
            try:
                await self._store.settle_outbound(row.id, status, **what)
            except (StoreClosed, NotFound):
                return  # it was purged with its session
            except ClewError:
                if self._closing:
                    return  # the next start finds it half sent, and marks it as uncertain
                await asyncio.sleep(self._settings.poll)
            else:
                self._report(row, status)
                return

    def _report(self, row: Outbound, status: str) -> None:
        if self._events is None:
            return
        facts = {"channel": row.channel, "session": row.session_id}
        if status == "failed":
            self._events.report("delivery_failed", "A reply could not be delivered.", **facts)
        elif status == "uncertain":
            text = "A reply may not have arrived."
            self._events.report("delivery_uncertain", text, **facts)


async def _say(channel: Channel, parcel: Parcel, shown: dict[str, Any] | None) -> dict[str, Any]:
    """Send a text: with its buttons, in place of what is shown of it already, or by itself."""
    if shown is not None and isinstance(channel, EditsMessages):
        # May be repeated. If the message is gone, the text is sent as a new one.
        with contextlib.suppress(ReplyRefused):
            await channel.edit(shown, parcel.text, is_plain=parcel.is_plain)
            return shown
    choices = _list_choices(parcel.outbound) if parcel.is_last else ()
    if choices and isinstance(channel, AsksWithButtons):
        return await channel.ask(parcel, choices)
    return await channel.send(parcel)


def _find_piece(channel: Channel, text: str, begin: int) -> Piece | None:
    """The piece of a text that begins there; None if nothing but space is left."""
    if not text[begin:].strip():
        return None
    place = 0
    for piece in channel.split(text):
        if place == begin and piece.source:
            return piece
        place += len(piece.source)
        if place > begin:
            break
    # It was cut in another way when its beginning was sent.
    return next(each for each in channel.split(text[begin:]) if each.source)


def _list_files(row: Outbound) -> tuple[dict[str, Any], ...]:
    return tuple(each for each in row.parts if isinstance(each.get("blob"), str))


def _word_file(part: dict[str, Any]) -> str:
    name = part.get("name") or part.get("media_type") or "a file"
    return f"[{name}: files can't be sent here]"


def _list_choices(row: Outbound) -> tuple[Choice, ...]:
    for part in row.parts:
        if part.get("type") == CHOICES:
            with contextlib.suppress(msgspec.ValidationError):
                return msgspec.convert(part.get("choices"), tuple[Choice, ...])
    return ()


def read_progress(row: Outbound) -> Progress:
    """How much of a reply has arrived."""
    try:
        return msgspec.convert(row.receipt or {}, Progress)
    except msgspec.ValidationError:
        return Progress()
