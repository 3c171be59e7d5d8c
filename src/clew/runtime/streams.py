"""What a channel shows of a turn while it runs: that it works, and its answer as it comes.

Both are signs only. An answer counts when it is committed; then `runtime.outbound` delivers it, in
place of the message that was shown. A sign that fails is left out, and never stops a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from clew.core.channels.replies import Parcel, ReplyTo, is_group, read_reply_to
from clew.core.delivery import Outbound
from clew.core.live_events import Committed, Event, Retrying, TextDelta, TurnEnded, TurnStarted
from clew.errors import ClewError
from clew.ports import Channel, EditsMessages, ShowsTyping, Store
from clew.runtime.watch import Bus

IsDenied = Callable[[ReplyTo, str, Any], bool]
"""Whether the send policy denies replies: the address, the session's key, its own setting."""


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds: between two signs, two changes of a text (more in a group), and before the first.

    `patience` is the limit for one call.
    """

    typing: float = 4.0
    edit: float = 1.5
    edit_group: float = 4.0
    first: float = 2.0
    patience: float = 10.0


MORE: Final = " …"
"""What a text that is not finished ends with."""


class Streams:
    """Shows running turns on channels. `run` it as a task; cancel it to stop."""

    def __init__(
        self,
        store: Store,
        channels: Sequence[Channel],
        bus: Bus,
        *,
        is_denied: IsDenied,
        settings: StreamSettings | None = None,
    ) -> None:
        self._store = store
        self._channels = {(each.name, each.account): each for each in channels}
        self._bus = bus
        self._is_denied = is_denied
        self._settings = settings or StreamSettings()
        self._shows: dict[str, _Show] = {}
        self._turns: dict[str, str] = {}
        self._begun: asyncio.Queue[tuple[str, str]] = asyncio.Queue(1_000)

    async def run(self) -> None:
        """Show what runs until cancelled."""
        with self._bus.observe(self._hear):
            async with asyncio.TaskGroup() as tasks:
                while True:
                    session_id, turn_id = await self._begun.get()
                    tasks.create_task(self._show(session_id, turn_id), name=f"signs {turn_id}")

    async def take(self, parcel: Parcel) -> dict[str, Any] | None:
        """The receipt of the message that shows the beginning of this answer, if there is one.

        From then on that message is changed by the caller only.
        """
        row = parcel.outbound
        if row.turn_id is None or row.seq is None or parcel.part != 1:
            return None
        show = self._shows.get(row.turn_id)
        return None if show is None else await show.finish(self._settings.patience)

    def _hear(self, session_id: str, event: Event) -> None:
        if isinstance(event, TurnStarted):
            with contextlib.suppress(asyncio.QueueFull):
                self._begun.put_nowait((session_id, event.turn_id))
                self._turns[session_id] = event.turn_id
                self._shows[event.turn_id] = _Show()
            return
        show = self._shows.get(self._turns.get(session_id, ""))
        if show is None:
            return
        match event:
            case TextDelta(text=text):
                show.text += text
            case Retrying():
                show.text = ""
            case Committed(message) if message.role == "assistant":
                show.text = ""
            case TurnEnded():
                show.over.set()
            case _:
                pass

    async def _show(self, session_id: str, turn_id: str) -> None:
        show = self._shows[turn_id]
        try:
            found = await self._find(session_id, turn_id)
            if found is not None:
                channel, reply_to = found
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._show_typing(channel, reply_to, show))
                    tasks.create_task(self._show_text(channel, reply_to, show))
        except ClewError:
            pass  # the store is away: the turn will notice, and its answer is delivered
        finally:
            # The answer is delivered within this time, or as a new message.
            asyncio.get_running_loop().call_later(60, self._shows.pop, turn_id, None)
            if self._turns.get(session_id) == turn_id:
                del self._turns[session_id]

    async def _find(self, session_id: str, turn_id: str) -> tuple[Channel, ReplyTo] | None:
        """The channel that the turn came from, and where; None if nothing may be shown there."""
        turn = await self._store.get_turn(turn_id)
        reply_to = read_reply_to(turn.reply_to)
        channel = None
        if reply_to is not None:
            channel = self._channels.get((reply_to.channel, reply_to.account))
        if reply_to is None or channel is None:
            return None
        session = await self._store.get_session(session_id)
        denied = self._is_denied(reply_to, session.key, session.send_policy)
        return None if denied else (channel, reply_to)

    async def _show_typing(self, channel: Channel, reply_to: ReplyTo, show: _Show) -> None:
        if not isinstance(channel, ShowsTyping):
            return
        while not show.over.is_set() and await self._try(channel.typing(reply_to.address, True)):
            await _wait(show.over, self._settings.typing)
        await self._try(channel.typing(reply_to.address, False))

    async def _show_text(self, channel: Channel, reply_to: ReplyTo, show: _Show) -> None:
        if not isinstance(channel, EditsMessages):
            return
        settings = self._settings
        pause = settings.edit_group if is_group(reply_to) else settings.edit
        await _wait(show.over, settings.first)
        while not show.over.is_set():
            async with show.changing:
                if show.taken or not await self._change(channel, channel, reply_to, show):
                    return
            await _wait(show.over, pause)

    async def _change(
        self, channel: Channel, editor: EditsMessages, reply_to: ReplyTo, show: _Show
    ) -> bool:
        """Bring the shown message up to date; False if the platform does not like it."""
        text = show.text.strip()
        if not text or text == show.shown:
            return True
        piece = next(iter(channel.split(text + MORE)), None)
        if piece is None:
            return True
        show.shown = text
        if show.receipt is not None:
            return await self._try(editor.edit(show.receipt, piece.sent))
        said: list[dict[str, Any]] = []

        async def send() -> None:
            said.append(await channel.send(Parcel(outbound=_as_row(reply_to), text=piece.sent)))

        is_sent = await self._try(send())
        show.receipt = said[0] if said else None
        return is_sent

    async def _try(self, call: Any) -> bool:
        try:
            async with asyncio.timeout(self._settings.patience):
                await call
        except Exception:  # noqa: BLE001  # a channel's library may raise anything
            return False
        return True


class _Show:
    """What is shown of one turn."""

    def __init__(self) -> None:
        self.text = ""
        self.shown = ""
        self.receipt: dict[str, Any] | None = None
        self.over = asyncio.Event()
        self.changing = asyncio.Lock()
        self.taken = False

    async def finish(self, patience: float) -> dict[str, Any] | None:
        """Change it no more; the message that was shown, once."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience), self.changing:
                self.taken = True
        receipt, self.receipt = self.receipt, None
        return receipt


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _as_row(reply_to: ReplyTo) -> Outbound:
    """A reply that is not in the outbox: a channel sends rows."""
    return make_row(reply_to, "")


def make_row(reply_to: ReplyTo, content: str) -> Outbound:
    """A row for a text that is sent outside of the outbox."""
    address: Mapping[str, Any] = reply_to.address
    return Outbound(
        "-", None, reply_to.key, reply_to.channel, dict(address), content, None, None, "sending", 1,
        0, None, None, None, None, 0, 0, reply_to.account,
    )  # fmt: skip
