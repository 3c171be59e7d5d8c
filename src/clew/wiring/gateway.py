"""A gateway: a house with reception, channels, jobs, deliveries, and the calls of the SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from clew.config import (
    Config,
    load,
    reveal,
)
from clew.errors import InvalidConfig
from clew.store.migrations import Report, quiet
from clew.wiring.errands import Errands, run_errands
from clew.wiring.house import House
from clew.wiring.stores import open_configured_store

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from clew.api.local import Calls
    from clew.channels.webhook import Hook
    from clew.client.client import Client
    from clew.gateway.auth import Gate, Setup
    from clew.ports import Channel, Clock
    from clew.runtime.supervisor import Tell


@asynccontextmanager
async def local(
    home: str | None = None,
    *,
    config: Config | None = None,
    clock: Clock | None = None,
    report: Report = quiet,
) -> AsyncIterator[Client]:
    """A client of this machine's clew, in this process: the same calls, and no server.

    `home` is the directory that `--home` names; left out, the usual one. The store may be open in
    other processes at the same time.
    """
    from clew.api.handlers.parts import Caller  # noqa: PLC0415  # only callers of `local` need it
    from clew.api.local import Calls, LocalTransport  # noqa: PLC0415  # only callers of `local` need it
    from clew.client.client import Client  # noqa: PLC0415  # only callers of `local` need it

    config = config or load(home=home)
    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config, clock, report=report)
        open_things.push_async_callback(store.close)
        house = House(config, store, clock=clock)
        open_things.push_async_callback(house.close)
        yield Client(transport=LocalTransport(Calls(house), Caller()))


@asynccontextmanager
async def local_files(config: Config) -> AsyncIterator[Client]:
    """The same for calls that need no store: memory, personalities, the list of jobs.

    No store is opened, and none is made.
    """
    from clew.api.handlers.parts import Caller  # noqa: PLC0415  # only who calls pays for it
    from clew.api.local import Calls, LocalTransport  # noqa: PLC0415  # only who calls pays for it
    from clew.client.client import Client  # noqa: PLC0415  # only who calls pays for it

    house = House(config, None)
    try:
        yield Client(transport=LocalTransport(Calls(house), Caller()))
    finally:
        await house.close()


class Gateway(NamedTuple):
    """What a gateway is made of, built."""

    house: House
    calls: Calls
    gate: Gate
    app: Starlette
    errands: Errands


@asynccontextmanager
async def open_gateway(
    config: Config,
    setup: Setup,
    *,
    clock: Clock | None = None,
    tell: Tell = lambda _words: None,
    report: Report = quiet,
) -> AsyncIterator[Gateway]:
    """The one owner of all sessions: store, agent, runtime, operations and their application.

    Nobody can reach it yet; `gateway.server` does that. It `tell`s of what fails beside the turns,
    and starts it again. What runs at the end is cut off, and the next gateway goes on with it.
    """
    # Only a process that serves pays for these.
    from clew.api.local import Calls  # noqa: PLC0415
    from clew.gateway.app import build_app  # noqa: PLC0415
    from clew.gateway.auth import Gate  # noqa: PLC0415
    from clew.gateway.webhook_endpoint import make_webhook_endpoint  # noqa: PLC0415

    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config, clock, report=report)
        open_things.push_async_callback(store.close)
        house = House(config, store, clock=clock)
        open_things.push_async_callback(house.close)
        hooks, clock = list_hooks(config), house.clock
        house.started_at = clock()
        channels = open_channels(hooks, clock)
        errands = await open_things.enter_async_context(run_errands(house, channels, tell))
        calls = Calls(house)
        gate = Gate(store, clock, setup)
        webhooks = make_webhook_endpoint(
            hooks, house.reception.receive, clock=clock, behind_proxy=setup.behind_proxy
        )
        app = build_app(calls, gate, endpoints=(webhooks,))
        yield Gateway(house, calls, gate, app, errands)


def open_channels(hooks: Sequence[Hook], clock: Clock) -> tuple[Channel, ...]:
    """The ways to people of this configuration."""
    from clew.channels.webhook import WebhookChannel  # noqa: PLC0415  # only who serves pays for it

    return tuple(WebhookChannel(hook, clock=clock) for hook in hooks)


def list_hooks(config: Config) -> tuple[Hook, ...]:
    """The webhooks, with their secrets; `InvalidConfig` for one that could not work."""
    from clew.channels.webhook import Hook  # noqa: PLC0415  # only who serves pays for it
    from clew.core.channels.routing import normalise_agent  # noqa: PLC0415  # only who serves pays for it

    hooks = []
    for name, each in config.webhooks.items():
        if each.secret is None:
            raise InvalidConfig(f"webhooks.{name}.secret is missing: nobody could call it.")
        callback_secret = each.callback_secret
        hook = Hook(
            name=name.lower(),
            secret=reveal(each.secret),
            agent=normalise_agent(each.agent),
            session=each.session,
            trusted=each.trusted,
            callback=each.callback,
            callback_secret=None if callback_secret is None else reveal(callback_secret),
            deliver_to=each.deliver_to,
            resend=each.resend,
        )
        hook.check()
        hooks.append(hook)
    return tuple(hooks)
