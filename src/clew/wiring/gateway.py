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
from clew.wiring.errands import Errands, open_cron_file, run_errands
from clew.wiring.house import House, open_house
from clew.wiring.rules import model_names, reset_rules, routing_rules, terminal_judge
from clew.wiring.stores import describe_store, open_configured_store

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from clew.api.handlers.parts import Format, Renderer
    from clew.api.local import Calls
    from clew.channels.webhook import Hook
    from clew.client.client import Client
    from clew.core.session import Session
    from clew.gateway.auth import Gate, Setup
    from clew.ports import Channel, Clock
    from clew.runtime.reception import Reception
    from clew.runtime.supervising import Tell
    from clew.store.findings import Diagnosis as Diagnosis  # noqa: PLC0414  # given on
    from clew.store.findings import Finding as Finding  # noqa: PLC0414  # likewise
    from clew.store.findings import Mended as Mended  # noqa: PLC0414  # likewise


def open_reception(
    config: Config,
    house: House,
    *,
    settle_s: float | None = None,
) -> Reception:
    """Where the messages of channels come in. Close it before the house.

    `settle_s` is another pause than the usual one before what was said meanwhile is answered.
    """
    from clew.core.placing import ReceptionRules  # noqa: PLC0415  # only a gateway needs it
    from clew.runtime.ordering import Orders  # noqa: PLC0415  # likewise
    from clew.runtime.projects import locate  # noqa: PLC0415  # likewise
    from clew.runtime.reception import SETTLE_S, Reception  # noqa: PLC0415  # likewise
    from clew.runtime.zones import find_zone  # noqa: PLC0415  # likewise

    zone = find_zone(config.session.timezone)
    rules = ReceptionRules(
        owners=config.owners,
        guests=config.guests,
        routing=routing_rules(config),
        resets=reset_rules(config),
        triggers=config.session.reset_triggers,
        models=model_names(config),
        sending=config.session.send_policy,
        zone=zone,
    )
    orders = Orders(
        runtime=house.runtime,
        models=house.models,
        personalities=house.personalities,
        memory=house.memory,
        context=house.context,
        place=locate(scope=config.session.scope),
        zone=zone,
    )
    pause = SETTLE_S if settle_s is None else settle_s
    return Reception(house.runtime, rules, orders, settle_s=pause)


def open_calls(
    config: Config,
    house: House,
    reception: Reception,
    errands: Errands | None = None,
    *,
    render: Renderer | None = None,
) -> Calls:
    """The public operations over a house; those of a gateway can tell of its errands too."""
    from clew.api.handlers.parts import Parts  # noqa: PLC0415  # likewise
    from clew.api.local import Calls  # noqa: PLC0415  # only who is called pays for it
    from clew.api.status import StoreView  # noqa: PLC0415  # likewise
    from clew.core.secrets import hide_password  # noqa: PLC0415  # likewise
    from clew.runtime.zones import find_zone  # noqa: PLC0415  # likewise
    from clew.transfer import export_session  # noqa: PLC0415  # likewise

    def export(session: Session, kind: Format, masked: bool | None) -> AsyncIterator[str]:
        return export_session(house.runtime.store, session, kind, masked=masked)

    async def describe() -> StoreView:
        facts = await describe_store(config)
        return StoreView(hide_password(config.store.url), facts.engine, facts.schema)

    return Calls(
        Parts(
            runtime=house.runtime,
            models=house.models,
            personalities=house.personalities,
            memory=house.memory,
            export=export,
            render=render,
            describe=describe,
            zone=find_zone(config.session.timezone),
            timezone=config.session.timezone,
            jobs=open_cron_file(config),
            channels=tuple if errands is None else errands.list_channels,
            errands=tuple if errands is None else errands.list_errands,
            job_problems=dict if errands is None else errands.list_problems,
            reception=reception,
            context=house.context,
            judge=terminal_judge(config),
        )
    )


def _open_renderer(open_things: AsyncExitStack) -> Renderer:
    from clew.transfer.typesetting import Typesetter  # noqa: PLC0415  # only who is called pays

    typesetter = Typesetter()
    open_things.push_async_callback(typesetter.close)
    return typesetter.render


@asynccontextmanager
async def local(
    home: str | None = None, *, config: Config | None = None, clock: Clock | None = None
) -> AsyncIterator[Client]:
    """A client of this machine's clew, in this process: the same calls, and no server.

    `home` is the directory that `--home` names; left out, the usual one. The store may be open in
    other processes at the same time.
    """
    from clew.api.handlers.parts import Caller  # noqa: PLC0415  # likewise
    from clew.api.local import LocalTransport  # noqa: PLC0415  # likewise
    from clew.client.client import Client  # noqa: PLC0415  # only who calls pays for it

    config = config or load(home=home)
    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config, clock)
        open_things.push_async_callback(store.close)
        house = open_house(config, store, clock=clock)
        open_things.push_async_callback(house.close)
        reception = open_reception(config, house)
        open_things.push_async_callback(reception.close)
        calls = open_calls(config, house, reception, render=_open_renderer(open_things))
        yield Client(transport=LocalTransport(calls, Caller()))


class Gateway(NamedTuple):
    """What a gateway is made of, built."""

    house: House
    calls: Calls
    gate: Gate
    app: Starlette
    errands: Errands


@asynccontextmanager
async def open_gateway(
    config: Config, setup: Setup, *, clock: Clock | None = None, tell: Tell = lambda _words: None
) -> AsyncIterator[Gateway]:
    """The one owner of all sessions: store, agent, runtime, operations and their application.

    Nobody can reach it yet; `gateway.serving` does that. It `tell`s of what fails beside the turns,
    and starts it again. What runs at the end is cut off, and the
    next gateway goes on with it.
    """
    from clew.gateway.app import build_app  # noqa: PLC0415  # only who serves pays for it
    from clew.gateway.auth import Gate  # noqa: PLC0415  # likewise
    from clew.gateway.hooks import make_hook_door  # noqa: PLC0415  # likewise
    from clew.gateway.streams import Streams  # noqa: PLC0415  # likewise

    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config, clock)
        open_things.push_async_callback(store.close)
        house = open_house(config, store, clock=clock)
        open_things.push_async_callback(house.close)
        reception = open_reception(config, house)
        open_things.push_async_callback(reception.close)
        hooks, clock = list_hooks(config), house.runtime.clock
        channels = open_channels(hooks, clock)
        errands = await open_things.enter_async_context(
            run_errands(config, house, reception, channels, tell)
        )
        renderer = _open_renderer(open_things)
        calls = open_calls(config, house, reception, errands, render=renderer)
        gate = Gate(store, clock, setup)
        streams = Streams(calls, gate)
        hook_door = make_hook_door(
            hooks, reception.receive, clock=clock, behind_proxy=setup.behind_proxy
        )
        app = build_app(
            calls, gate, doors=(*streams.doors, hook_door), stream_chat=streams.stream_chat
        )
        yield Gateway(house, calls, gate, app, errands)


def open_channels(hooks: Sequence[Hook], clock: Clock) -> tuple[Channel, ...]:
    """The ways to people of this configuration."""
    from clew.channels.webhook import WebhookChannel  # noqa: PLC0415  # only who serves pays for it

    return tuple(WebhookChannel(hook, clock=clock) for hook in hooks)


def list_hooks(config: Config) -> tuple[Hook, ...]:
    """The webhooks, with their secrets; `InvalidConfig` for one that could not work."""
    from clew.channels.webhook import Hook  # noqa: PLC0415  # only who serves pays for it
    from clew.core.routing import normalise_agent  # noqa: PLC0415  # likewise

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
