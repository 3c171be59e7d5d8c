"""Supervision of background tasks: one that fails is restarted, and does not stop the others.

A `Keeper` keeps one task running, and tells people what happened to it. A `Supervisor` does so for
channels while they listen: incoming messages go to `receive`; `runtime.outbound` sends replies.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, Final, Literal

import msgspec

from clew.core.channels.incoming import Event, Receipt
from clew.ports import Channel, Clock, Receive
from clew.runtime.event_log import EventLog

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0
STEADY: Final = 60.0
"""In seconds: the first and longest pause before a restart (it doubles), and the time after which a
task counts as healthy again.
"""

Tell = Callable[[str], object]
"""Tells the owner something, for example on the screen of `clew serve`."""


class Keeping(msgspec.Struct, frozen=True):
    """The state of a supervised task, for people to read. `error` is why it waits."""

    name: str
    state: Literal["running", "waiting", "stopped"]
    since: int
    failures: int = 0
    error: str | None = None


def describe_failure(error: BaseException) -> str:
    """An error in one line; of a group of errors, the first."""
    error = _first(error)
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def describe_bug(error: BaseException) -> str:
    """The same with its place in the code, for developers."""
    frames = traceback.extract_tb(_first(error).__traceback__)
    where = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{describe_failure(error)}{where}"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Keeper:
    """Keeps one background task running. `run` it as a task; cancel it to stop.

    `trouble` tells people what does not work while it is down. A task that returns is restarted
    like one that fails, unless it `may_end`. `watch` is called when its state changes.
    """

    def __init__(
        self,
        name: str,
        start: Callable[[], Coroutine[Any, Any, None]],
        *,
        trouble: str,
        clock: Clock,
        tell: Tell = lambda _words: None,
        describe: Callable[[BaseException], str] = describe_bug,
        first_pause: float = FIRST_PAUSE,
        may_end: bool = False,
        watch: Callable[[Keeping], object] = lambda _now: None,
    ) -> None:
        self._start = start
        self._trouble = trouble
        self._describe = describe
        self._clock = clock
        self._tell = tell
        self._first_pause = first_pause
        self._may_end = may_end
        self._watch = watch
        self.now = Keeping(name, "stopped", clock())

    async def run(self) -> None:
        """Run it, and restart it whenever it ends, until cancelled."""
        failures = 0
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._note("running", failures)
                began = loop.time()
                error = await self._go()
                if error is None:
                    return
                failures = 1 if loop.time() - began > STEADY else failures + 1
                pause = min(self._first_pause * 2.0 ** min(failures - 1, 20), LONGEST_PAUSE)
                self._note("waiting", failures, error)
                why = str(error).rstrip(".")
                self._tell(f"{self._trouble}: {why}. Trying again in {pause:.3g} s.")
                await asyncio.sleep(pause)
        finally:
            self._note("stopped", failures)

    async def _go(self) -> str | None:
        """Run it once; returns why it failed, or None if it is finished."""
        try:
            await self._start()
        except Exception as error:  # noqa: BLE001  # a library, or a bug: other tasks go on
            return self._describe(error)
        return None if self._may_end else "it stopped by itself"

    def _note(
        self,
        state: Literal["running", "waiting", "stopped"],
        failures: int,
        error: str | None = None,
    ) -> None:
        before, self.now = self.now, Keeping(self.now.name, state, self._clock(), failures, error)
        if before.state != state:
            self._watch(self.now)


class ChannelState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a channel, for people to read. `last_at`: when a message last came in."""

    name: str
    account: str
    state: Literal["listening", "waiting", "stopped"]
    since: int
    failures: int = 0
    error: str | None = None
    last_at: int | None = None


class Supervisor:
    """Keeps channels listening. `run` it as a task; cancel it to stop."""

    def __init__(
        self,
        channels: Sequence[Channel],
        receive: Receive,
        *,
        clock: Clock,
        tell: Tell = lambda _words: None,
        first_pause: float = FIRST_PAUSE,
        events: EventLog | None = None,
    ) -> None:
        self._last: dict[tuple[str, str], int] = {}

        def keep(channel: Channel) -> Keeper:
            async def note(event: Event) -> Receipt:
                self._last[channel.name, channel.account] = clock()
                return await receive(event)

            return Keeper(
                channel.name,
                lambda: channel.run(note),
                trouble=f"{channel.name} ({channel.account}) does not listen",
                clock=clock,
                tell=tell,
                describe=describe_failure,
                first_pause=first_pause,
                watch=partial(_report_channel, events, channel.name),
            )

        self._kept = [(each, keep(each)) for each in channels]

    def list_states(self) -> tuple[ChannelState, ...]:
        """The state of each channel, in order."""
        return tuple(
            ChannelState(
                channel.name,
                channel.account,
                "listening" if keeper.now.state == "running" else keeper.now.state,
                keeper.now.since,
                keeper.now.failures,
                keeper.now.error,
                self._last.get((channel.name, channel.account)),
            )
            for channel, keeper in self._kept
        )

    async def check(self, name: str, account: str) -> tuple[str, tuple[str, ...]] | None:
        """Ask a channel who it is on its platform, and what it lacks; None if it can't say."""
        for channel, _ in self._kept:
            ask: Any = getattr(channel, "check", None)
            if (channel.name, channel.account) == (name, account) and ask is not None:
                told = await ask()
                return told.who, tuple(told.problems)
        return None

    async def run(self) -> None:
        """Listen on all channels until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for channel, keeper in self._kept:
                tasks.create_task(keeper.run(), name=f"channel {channel.name}")


def report_task(events: EventLog, now: Keeping) -> None:
    """Add to the events that a background task works, or does not."""
    if now.state == "running":
        events.report("task_up", f"The task {now.name} runs.")
    elif now.state == "waiting":
        text = f"The task {now.name} failed, and is started again. `clew status` says more."
        events.report("task_down", text)


def _report_channel(events: EventLog | None, channel: str, now: Keeping) -> None:
    if events is None:
        return
    if now.state == "running":
        events.report("channel_up", "A channel listens.", channel=channel)
    elif now.state == "waiting":
        text = "A channel does not listen. It is tried again; `clew status` says more."
        events.report("channel_down", text, channel=channel)
