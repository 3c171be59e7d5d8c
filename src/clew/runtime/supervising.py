"""Channels while they listen: one that fails is started again, and never takes the others down.

What comes in goes to `receive`; what goes out is `delivering`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from clew.ports import Channel, Clock, Receive

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0
STEADY: Final = 60.0
"""Seconds: between two starts, doubling, at most; and after which a channel counts as well."""


class ChannelState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a channel is doing, for people to see."""

    name: str
    account: str
    state: Literal["listening", "waiting", "stopped"]
    since: int
    failures: int = 0
    error: str | None = None


class Supervisor:
    """Keeps channels listening. `run` it as a task; cancel it to stop."""

    def __init__(
        self,
        channels: Sequence[Channel],
        receive: Receive,
        *,
        clock: Clock,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self._channels = tuple(channels)
        self._receive = receive
        self._clock = clock
        self._first_pause = first_pause
        self._states: dict[int, ChannelState] = {}

    def list_states(self) -> tuple[ChannelState, ...]:
        """How each channel is doing, in their order."""
        return tuple(
            self._states.get(number)
            or ChannelState(each.name, each.account, "stopped", self._clock())
            for number, each in enumerate(self._channels)
        )

    async def run(self) -> None:
        """Listen on all of them until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number, channel in enumerate(self._channels):
                tasks.create_task(self._keep(number, channel), name=f"channel {channel.name}")

    async def _keep(self, number: int, channel: Channel) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._note(number, channel, "listening", failures)
                began = loop.time()
                error = await self._listen(channel)
                failures = 1 if loop.time() - began > STEADY else failures + 1
                self._note(number, channel, "waiting", failures, error)
                pause = self._first_pause * 2.0 ** min(failures - 1, 20)
                await asyncio.sleep(min(pause, LONGEST_PAUSE))
        finally:
            self._note(number, channel, "stopped", failures)

    async def _listen(self, channel: Channel) -> str:
        """Why it does not listen any more."""
        try:
            await channel.run(self._receive)
        except Exception as error:  # noqa: BLE001  # a channel's library may raise anything
            return f"{type(error).__name__}: {error}"
        return "it stopped listening"

    def _note(
        self,
        number: int,
        channel: Channel,
        state: Literal["listening", "waiting", "stopped"],
        failures: int,
        error: str | None = None,
    ) -> None:
        self._states[number] = ChannelState(
            channel.name, channel.account, state, self._clock(), failures, error
        )
