"""What a gateway does beside the turns: it listens to channels, runs jobs, delivers and tidies.

Each of them is kept going on its own; what went wrong with which is told, and shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from clew.wiring.house import House
from clew.wiring.stores import retention_policy

if TYPE_CHECKING:
    from clew.api.status import ChannelView, ErrandView
    from clew.ports import Channel
    from clew.runtime.cron import CronRunner
    from clew.runtime.supervisor import Keeper, Supervisor, Tell

SHOWN: Final[dict[str, Literal["up", "down", "off"]]] = {
    "listening": "up",
    "running": "up",
    "waiting": "down",
    "stopped": "off",
}
"""What people are told of a channel's state, or an errand's."""


class Errands(NamedTuple):
    """What goes on beside the turns, and how it is doing."""

    supervisor: Supervisor
    jobs: CronRunner
    kept: tuple[Keeper, ...]
    listening: frozenset[asyncio.Task[None]]

    def list_errands(self) -> tuple[ErrandView, ...]:
        """All of it, as it is shown."""
        from clew.api.status import ErrandView  # noqa: PLC0415  # only who serves pays for it

        now = [each.now for each in self.kept]
        return tuple(ErrandView(each.name, SHOWN[each.state], each.error) for each in now)

    def list_channels(self) -> tuple[ChannelView, ...]:
        """The channels, as they are shown."""
        from clew.api.status import ChannelView  # noqa: PLC0415  # only who serves pays for it

        return tuple(
            ChannelView(each.name, each.account, SHOWN[each.state], each.error)
            for each in self.supervisor.list_states()
        )

    def list_problems(self) -> dict[str, str]:
        """What went wrong with which job."""
        return dict(self.jobs.problems)

    async def stop_listening(self) -> None:
        """Nothing new comes from channels or from the clock. Replies still go out."""
        for task in self.listening:
            task.cancel()
        await asyncio.wait(self.listening)


@asynccontextmanager
async def run_errands(
    house: House,
    channels: Sequence[Channel],
    tell: Tell = lambda _words: None,
) -> AsyncIterator[Errands]:
    """What a dead gateway left is taken up; then, inside the block, channels are listened to.

    Replies are delivered and jobs are run there too. A bug in any of it is told, and does not end
    the others: it is started again.
    """
    from clew.runtime.cron import CronRunner, begin_run  # noqa: PLC0415  # only who serves pays
    from clew.runtime.outbound import Deliverer  # noqa: PLC0415  # likewise
    from clew.runtime.recovery import keep_up, take_up  # noqa: PLC0415  # likewise
    from clew.runtime.supervisor import Keeper, Supervisor  # noqa: PLC0415  # likewise
    from clew.runtime.upkeep.after_turn import keep_tidy  # noqa: PLC0415  # likewise

    runtime, reception = house.runtime, house.reception
    keep = partial(Keeper, clock=runtime.clock, tell=tell)
    deliverer = Deliverer(
        runtime.store, channels, clock=runtime.clock, bell=runtime.replies.bell, bus=runtime.bus
    )
    jobs = CronRunner(
        house.jobs,
        partial(begin_run, runtime, house.models),
        clock=runtime.clock,
        timezone=house.timezone,
    )
    supervisor = Supervisor(channels, reception.receive, clock=runtime.clock, tell=tell)
    kept = (
        keep("replies", deliverer.run, trouble="Replies are not delivered", may_end=True),
        keep("jobs", jobs.run, trouble="Jobs are not run"),
        # Without channels it is over at once.
        keep("channels", supervisor.run, trouble="Channels are not listened to", may_end=True),
        keep(
            "others",
            partial(keep_up, runtime),
            trouble="What another gateway leaves is not taken up",
        ),
        keep(
            "tidying",
            partial(
                keep_tidy,
                runtime.store,
                retention_policy(house.config),
                trash_days=house.config.session.trash_days,
                clock=runtime.clock,
            ),
            trouble="Old sessions are not put away",
        ),
    )
    await take_up(runtime)
    delivering, *listening = (asyncio.create_task(each.run(), name=each.now.name) for each in kept)
    errands = house.errands = Errands(supervisor, jobs, kept, frozenset(listening))
    try:
        yield errands
    finally:
        await errands.stop_listening()
        await deliverer.close()
        if kept[0].now.state == "waiting":
            delivering.cancel()
        await asyncio.wait({delivering})
