"""A gateway: the API over HTTP, and what it does beside the turns.

Channels are listened to, jobs run, replies are delivered, old sessions are put away. Each of these
errands is restarted on its own if it fails; the failure is reported, and `status` shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from clew.config import Config, reveal
from clew.errors import InvalidConfig
from clew.store.migrations import Report, quiet
from clew.version import __version__
from clew.wiring.channels import build_channels
from clew.wiring.checks import check_config, list_warnings
from clew.wiring.house import House, open_house
from clew.wiring.reload import Reloader
from clew.wiring.stores import retention_policy
from clew.wiring.workspaces import make_workspace

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.server import MCPServer
    from starlette.applications import Starlette

    from clew.api.handlers.parts import Caller
    from clew.api.local import Calls
    from clew.api.status import ChannelView, ErrandView
    from clew.channels.webhook import Hook
    from clew.gateway.auth import Gate, Setup
    from clew.ports import Channel, Clock
    from clew.runtime.cron import CronRunner
    from clew.runtime.outbound import Deliverer
    from clew.runtime.supervisor import Keeper, Supervisor, Tell

SHOWN: Final[dict[str, Literal["up", "down", "off"]]] = {
    "listening": "up",
    "running": "up",
    "waiting": "down",
    "stopped": "off",
}
"""The state of a channel or an errand, as people see it."""


STRANDED: Final = "not configured: what waits for it fails after a day ({})"


class Gateway(NamedTuple):
    """The parts of an open gateway. `workspace` is the directory that its agent works in."""

    house: House
    calls: Calls
    gate: Gate
    app: Starlette
    errands: Errands
    workspace: Path


@asynccontextmanager
async def open_gateway(
    config: Config,
    setup: Setup,
    *,
    clock: Clock | None = None,
    tell: Tell = lambda _words: None,
    report: Report = quiet,
    read_config: Callable[[], Config] | None = None,
) -> AsyncIterator[Gateway]:
    """Build a gateway: store, agent, runtime, operations and their application.

    It does not listen yet; `gateway.server` does that. `tell` is called when an errand fails. Turns
    that run at the end are stopped, and the next gateway goes on with them. `report` is called
    while an older store is updated. `read_config` reads the configuration again, for a
    reload.
    """
    from clew.api.local import Calls
    from clew.channels.webhook import WebhookChannel
    from clew.gateway.app import build_app
    from clew.gateway.auth import Gate
    from clew.gateway.log_file import LogFile
    from clew.gateway.metrics import Metrics, make_metrics_endpoint
    from clew.gateway.unknown_senders import find_limits, raise_descriptor_limit
    from clew.gateway.webhook_endpoint import make_webhook_endpoint

    check_config(config)
    for each in list_warnings(config):
        tell(f"Warning: {each}")
    workspace = make_workspace(config)
    async with open_house(config, clock, workspace=workspace, report=report) as house:
        hooks, clock = _list_hooks(config), house.clock
        house.started_at = clock()
        house.reloader = None if read_config is None else Reloader(house, read_config)
        own = build_channels(config) if config.channels else ()
        channels = (*(WebhookChannel(hook, clock=clock) for hook in hooks), *own)
        async with run_errands(house, channels, tell) as errands:
            calls = Calls(house)
            limits = find_limits(raise_descriptor_limit())
            events = house.runtime.events
            gate = Gate(house.store, clock, setup, limits, events)
            webhooks = make_webhook_endpoint(
                hooks, house.reception.receive, clock=clock, behind_proxy=setup.behind_proxy
            )
            metrics = Metrics()
            events.listen(metrics.count)
            events.listen(LogFile(config.state_dir).write)
            counts = make_metrics_endpoint(house, gate, metrics)
            make_mcp = partial(_make_mcp_server, calls)
            app = build_app(calls, gate, endpoints=(webhooks, counts), make_mcp_server=make_mcp)
            events.report("started", f"The gateway started, clew {__version__}.")
            yield Gateway(house, calls, gate, app, errands, workspace)
            events.report("stopping", "The gateway stops.")


def _make_mcp_server(calls: Calls, caller: Caller) -> MCPServer:
    """The MCP server of a caller; `ModuleNotFoundError` without the extra."""
    from clew.adapters.mcp_server import make_server
    from clew.api.local import LocalTransport
    from clew.client.client import Client
    from clew.core.tokens import covers

    client = Client(transport=LocalTransport(calls, caller))
    may_write = caller.is_owner and covers(caller.scopes, "write")
    return make_server(client, calls.parts.clock, write=may_write, token=caller.token_id)


def _list_hooks(config: Config) -> tuple[Hook, ...]:
    """The webhooks with their secrets; `InvalidConfig` for one that can't work."""
    from clew.channels.webhook import Hook
    from clew.core.channels.routing import normalise_agent

    hooks = []
    for name, each in config.webhooks.items():
        if each.secret is None:
            raise InvalidConfig(
                f"webhooks.{name}.secret is missing: without it no caller is accepted."
            )
        callback_secret = each.callback_secret
        hook = Hook(
            name=name.lower(),
            secret=reveal(each.secret),
            agent=normalise_agent(each.agent),
            session=each.session,
            trusted=each.trusted,
            memory=each.memory,
            callback=each.callback,
            callback_secret=None if callback_secret is None else reveal(callback_secret),
            deliver_to=each.deliver_to,
            resend=each.resend,
        )
        hook.check()
        hooks.append(hook)
    return tuple(hooks)


# --- errands ------------------------------------------------------------------------------------


class Errands(NamedTuple):
    """What a gateway does beside the turns, and the state of each errand."""

    supervisor: Supervisor
    jobs: CronRunner
    kept: tuple[Keeper, ...]
    listening: frozenset[asyncio.Task[None]]
    deliverer: Deliverer

    def list_errands(self) -> tuple[ErrandView, ...]:
        """The errands, as `status` shows them."""
        from clew.api.status import ErrandView

        now = [each.now for each in self.kept]
        return tuple(ErrandView(each.name, SHOWN[each.state], each.error) for each in now)

    def list_channels(self) -> tuple[ChannelView, ...]:
        """The channels, as `status` shows them."""
        from clew.api.status import ChannelView
        from clew.core.names import counted

        listening = [
            ChannelView(
                each.name, each.account, SHOWN[each.state], each.error, each.since, each.last_at
            )
            for each in self.supervisor.list_states()
        ]
        stranded = [
            ChannelView(name, account, "off", STRANDED.format(counted(count, "message")))
            for (name, account), count in sorted(self.deliverer.stranded.items())
        ]
        return (*listening, *stranded)

    def list_problems(self) -> dict[str, str]:
        """The last error of each job that failed, by its name."""
        return dict(self.jobs.problems)

    async def stop_listening(self) -> None:
        """Stop channels and jobs. Replies are still delivered."""
        for task in self.listening:
            task.cancel()
        await asyncio.wait(self.listening)


def _follow(house: House, keep: Callable[..., Keeper]) -> tuple[Keeper, ...]:
    """The errand that imports what other agents write, if it is asked for."""
    from clew.wiring.histories import check_followed, follow_histories

    agents = house.config.imports.follow
    if not agents:
        return ()
    check_followed(agents)
    run = partial(follow_histories, house.runtime.store, agents, clock=house.runtime.clock)
    return (keep("histories", run, trouble="Other agents' histories are not followed"),)


@asynccontextmanager
async def run_errands(
    house: House,
    channels: Sequence[Channel],
    tell: Tell = lambda _words: None,
) -> AsyncIterator[Errands]:
    """Take up what a dead gateway left; then run the errands for as long as the block lasts.

    An errand that fails is reported and restarted; the others go on.
    """
    from clew.ports import HoldsConnections
    from clew.runtime.cron import CronRunner, begin_run
    from clew.runtime.outbound import Deliverer
    from clew.runtime.recovery import keep_up, take_up
    from clew.runtime.streams import Streams
    from clew.runtime.supervisor import Keeper, Supervisor, report_task
    from clew.runtime.upkeep.after_turn import keep_tidy

    runtime, reception = house.runtime, house.reception
    watch = partial(report_task, runtime.events)
    keep = partial(Keeper, clock=runtime.clock, tell=tell, watch=watch)
    streams = Streams(
        runtime.store,
        channels,
        runtime.bus,
        is_denied=lambda to, key, own: runtime.replies.is_denied(to, key, override=own),
    )
    deliverer = Deliverer(
        runtime.store,
        channels,
        clock=runtime.clock,
        bell=runtime.replies.bell,
        bus=runtime.bus,
        events=runtime.events,
        streams=streams,
    )
    jobs = CronRunner(
        house.jobs,
        partial(begin_run, runtime, house.models),
        clock=runtime.clock,
        timezone=house.timezone,
    )
    supervisor = Supervisor(
        channels, reception.receive, clock=runtime.clock, tell=tell, events=runtime.events
    )
    kept = (
        keep("replies", deliverer.run, trouble="Replies are not delivered", may_end=True),
        keep("jobs", jobs.run, trouble="Jobs are not run"),
        # Without channels it ends at once.
        keep("channels", supervisor.run, trouble="Channels are not listened to", may_end=True),
        keep("signs", streams.run, trouble="Running turns are not shown on channels"),
        keep(
            "others",
            partial(keep_up, runtime, tell=tell),
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
        *_follow(house, keep),
    )
    await take_up(runtime)
    delivering, *listening = (asyncio.create_task(each.run(), name=each.now.name) for each in kept)
    errands = house.errands = Errands(supervisor, jobs, kept, frozenset(listening), deliverer)
    try:
        yield errands
    finally:
        await errands.stop_listening()
        await deliverer.close()
        if kept[0].now.state == "waiting":
            delivering.cancel()
        await asyncio.wait({delivering})
        for each in channels:
            if isinstance(each, HoldsConnections):
                await each.close()
