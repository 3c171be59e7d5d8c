"""Claiming a new channel: the person who writes the shown code to it is its owner.

So nobody has to find out their id on a platform. It counts for ten minutes, in private chats only,
and ends after five wrong codes. It runs only while somebody waits for it at the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from clew.core.channels.incoming import Event, Incoming, Receipt, Sender
from clew.core.channels.people import CODE_LENGTH, LETTERS, read_code
from clew.core.channels.replies import Parcel, ReplyTo
from clew.errors import ChannelRefused, InvalidInput
from clew.ports import Channel
from clew.runtime.streams import make_row

TRIES: Final = 5
PATIENCE: Final = 600.0
"""Seconds in which the code counts."""
AGAIN: Final = 3.0
"""Seconds before a channel that failed is started again."""

WELCOME: Final = "You are my owner now. Start the gateway with `clew serve`, then write to me."
WRONG: Final = "That is not the code. Look at it again in the terminal."
HINT: Final = "Write me the code that the terminal shows."


def make_code() -> str:
    """A new code: eight letters."""
    return "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))


async def wait_for_owner(
    channel: Channel,
    code: str,
    *,
    patience: float = PATIENCE,
    tell: Callable[[str], object] = lambda _words: None,
) -> Sender:
    """Listen until somebody writes the code in a private chat; returns who.

    `InvalidInput` after five wrong codes, or when the time is over; `ChannelRefused` if the
    platform does not accept the account. Messages that came before are passed over.
    """
    claim = _Claim(channel, code)
    try:
        async with asyncio.timeout(patience):
            while True:
                try:
                    await _run_until(channel, claim)
                except (ChannelRefused, InvalidInput):
                    raise
                except Exception as error:  # noqa: BLE001  # a channel's library may raise anything
                    tell(f"{channel.name} does not listen: {error}. Trying again.")
                    await asyncio.sleep(AGAIN)
                if claim.owner is not None:
                    return claim.owner
    except TimeoutError as error:
        raise InvalidInput(
            f"Nobody wrote the code in {patience / 60:.0f} minutes. Nothing was changed."
        ) from error


async def _run_until(channel: Channel, claim: _Claim) -> None:
    """Run the channel until the claim is decided, and the message that decided it acknowledged."""
    running = asyncio.create_task(channel.run(claim.receive))
    deciding = asyncio.create_task(claim.decided.wait())
    try:
        await asyncio.wait({running, deciding}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        claim.check()
        await asyncio.wait({running}, timeout=1)  # the platform gets its acknowledgement
    finally:
        for task in (running, deciding):
            task.cancel()
        await asyncio.wait({running, deciding})


class _Claim:
    def __init__(self, channel: Channel, code: str) -> None:
        self.decided = asyncio.Event()
        self.owner: Sender | None = None
        self._channel = channel
        self._code = code
        self._wrong = 0

    def check(self) -> None:
        """`InvalidInput` if there were too many wrong codes."""
        if self._wrong >= TRIES and self.owner is None:
            raise InvalidInput(
                f"{TRIES} wrong codes were written: somebody else may be trying. Nothing was "
                "changed; begin again for a new code."
            )

    async def receive(self, event: Event) -> Receipt:
        """See `ports.Receive`: nothing is kept."""
        nothing = Receipt(is_new=False, note="It is not owned yet.")
        if not isinstance(event, Incoming) or self.decided.is_set():
            return nothing
        peer = event.arrival.peer
        if peer is None or peer.kind != "dm" or not event.sender.id or not event.is_verified:
            return nothing
        typed = read_code(event.text)
        if typed is None:
            await self._answer(event.reply_to, HINT)
        elif hmac.compare_digest(typed, self._code):
            self.owner = event.sender
            await self._answer(event.reply_to, WELCOME)
            self.decided.set()
        else:
            self._wrong += 1
            await self._answer(event.reply_to, WRONG)
            if self._wrong >= TRIES:
                self.decided.set()
        return nothing

    async def _answer(self, to: ReplyTo | None, text: str) -> None:
        if to is None:
            return
        with contextlib.suppress(Exception):  # it is only a kindness
            for piece in self._channel.split(text):
                await self._channel.send(Parcel(outbound=make_row(to, text), text=piece.sent))
