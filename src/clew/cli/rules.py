"""`clew explain route|reset|send|trigger`: the rules of the gateway, asked without a message.

The same functions decide when one comes in. Nothing is opened here but the configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Any

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.tables import facts
from clew.core.text import strip_controls

guest_option = click.option(
    "--owner/--guest", "is_owner", default=True, help="Who says it; the owner unless told."
)


@click.command("route")
@click.option("--channel", metavar="NAME", required=True, help="telegram, discord, slack, …")
@click.option("--account", metavar="NAME", default="default", help="Which of its accounts.")
@click.option("--peer", metavar="KIND:ID", help="dm:ID, group:ID or channel:ID.")
@click.option("--guild", metavar="ID", help="The Discord server.")
@click.option("--team", metavar="ID", help="The Slack workspace.")
@click.option("--thread", metavar="ID", help="The thread or topic.")
@click.option("--forum", "is_forum", is_flag=True, help="The Telegram group is a forum.")
@guest_option
@json_option
@pass_app
def route_command(app: App, /, peer: str | None, **given: Any) -> None:
    """Say which agent and which session key a message would have.

    \b
    Examples:
      clew explain route --channel telegram --peer dm:123
      clew explain route --channel slack --peer channel:C01 --thread 171.2
      clew explain route --channel discord --peer dm:9 --guest --json
    """
    from clew.core.routing import Arrival, parse_peer, route
    from clew.wiring import routing_rules

    arrival = Arrival(peer=None if peer is None else parse_peer(peer), **given)
    found = route(routing_rules(app.config), arrival)
    pairs = [("key", found.key), ("agent", f"{found.agent} ({found.matched_by})")]
    pairs += [("account", found.account)]
    if found.dm_scope is not None:
        pairs += [("direct", found.dm_scope)]
    if found.linked is not None:
        pairs += [("known as", found.linked)]
    considered = [(each.rule, each.verdict) for each in found.considered]
    _answer(app, found, pairs, considered)


@click.command("reset")
@click.option("--key", metavar="KEY", required=True, help="The session's key.")
@click.option("--channel", metavar="NAME", help="Its channel, if the key doesn't tell.")
@click.option("--thread", metavar="ID", help="The thread, if the key doesn't tell.")
@click.option("--updated-at", metavar="TIME", required=True, help="When a person last spoke there.")
@click.option("--now", "at", metavar="TIME", help="When the next message comes; now unless told.")
@click.option("--timezone", "zone_name", metavar="ZONE", help="Instead of session.timezone.")
@json_option
@pass_app
def reset_command(
    app: App, /, *, key: str, channel: str | None, thread: str | None, updated_at: str,
    at: str | None, zone_name: str | None,
) -> None:  # fmt: skip
    """Say whether a conversation would go on or begin afresh, and why.

    Times are ISO; without an offset they are the wall time of the zone.

    \b
    Examples:
      clew explain reset --key agent:main:main --updated-at 2026-03-09T23:00 --now 2026-03-10T08:00
      clew explain reset --key agent:main:slack:channel:c1:thread:7 --updated-at 2026-03-10T08:00Z
    """
    from clew.core.resets import channel_of, choose_policy, decide_reset, reset_type
    from clew.wiring import reset_rules

    zone = _find_zone(app, zone_name)
    last = _read_time(updated_at, zone, "--updated-at")
    now = app.now if at is None else _read_time(at, zone, "--now")
    kind = reset_type(key, thread=thread)
    place = channel or channel_of(key)
    policy = choose_policy(reset_rules(app.config), kind, place)
    found = decide_reset(policy, last, now, zone)
    boundary, until = _iso(found.boundary, zone), _iso(found.idle_until, zone)
    value = {
        "key": key,
        "type": kind,
        "channel": place,
        "policy": msgspec.to_builtins(policy),
        "fresh": found.fresh,
        "reason": found.reason,
        "boundary": boundary,
        "idle_until": until,
        "updated_at": _iso(last, zone),
        "now": _iso(now, zone),
    }
    pairs = [
        ("it", "goes on" if found.fresh else f"begins afresh ({found.reason})"),
        ("type", f"{kind}{f' on {place}' if place else ''}"),
        ("policy", _word_policy(policy.mode, policy.at_hour, policy.idle_minutes)),
    ]
    pairs += [("boundary", boundary)] if boundary else []
    pairs += [("idle until", until)] if until else []
    _answer(app, value, pairs)


@click.command("send")
@click.option("--key", metavar="KEY", required=True, help="The session's key.")
@click.option("--channel", metavar="NAME", help="Its channel, if the key doesn't tell.")
@click.option(
    "--chat-type", type=click.Choice(["direct", "group", "channel"]), help="What kind of chat."
)
@click.option("--override", type=click.Choice(["allow", "deny"]), help="What /send has set.")
@json_option
@pass_app
def send_command(app: App, /, key: str, channel: str | None, chat_type: Any, override: Any) -> None:
    """Say whether replies in a conversation would be delivered, and why.

    \b
    Examples:
      clew explain send --key agent:main:discord:group:5
      clew explain send --key agent:main:main --channel telegram --override deny
    """
    from clew.core.sending import decide_send, describe_conversation

    where = describe_conversation(key, channel, chat_type)
    found = decide_send(app.config.session.send_policy, where, override=override)
    value = msgspec.to_builtins(where) | msgspec.to_builtins(found)
    said = "delivered" if found.decision == "allow" else "kept, and not delivered"
    _answer(app, value, [("replies are", said), ("by", found.rule)], found.considered)


@click.command("trigger")
@click.option("--text", metavar="TEXT", required=True, help="The message.")
@click.option("--mention", metavar="NAME", help="The bot's name, which may stand before it.")
@guest_option
@json_option
@pass_app
def trigger_command(app: App, /, text: str, mention: str | None, is_owner: bool) -> None:
    """Say whether a message begins a new conversation.

    Also with which model, and with which first words.

    \b
    Examples:
      clew explain trigger --text "/new opus fix the build"
      clew explain trigger --text "@bot /reset" --mention bot --guest
    """
    from clew.core.triggers import read_trigger
    from clew.wiring import model_names

    found = read_trigger(
        text,
        extra=app.config.session.reset_triggers,
        mention=mention,
        may_command=is_owner,
        models=model_names(app.config),
    )
    pairs = [("it", "begins a new conversation" if found.triggered else "is a message like others")]
    if found.model:
        pairs += [("model", f"{found.model} ({found.why})")]
    if found.triggered:
        pairs += [("first words", found.remainder or "none: a short greeting")]
    else:
        pairs += [("why", found.why)]
    _answer(app, found, pairs)


# --- showing ----------------------------------------------------------------------------------


def _answer(
    app: App,
    value: object,
    pairs: list[tuple[str, str]],
    considered: Sequence[tuple[str, str]] = (),
) -> None:
    if app.json:
        app.emit(value)
        return
    shown = [(name, strip_controls(text, keep_newlines=False)) for name, text in pairs]
    lines = facts(app, shown)
    if considered:
        lines += ["", "Considered:"]
        lines += [f"  {strip_controls(f'{rule}: {verdict}')}" for rule, verdict in considered]
    app.say("\n".join(lines))


def _word_policy(mode: str, hour: int, minutes: int | None) -> str:
    pause = "" if minutes is None else f"after {minutes} idle minutes"
    if mode == "daily":
        return f"daily at {hour}:00{f', or {pause}' if pause else ''}"
    return pause if mode == "idle" else "never"


def _find_zone(app: App, name: str | None) -> tzinfo:
    from zoneinfo import ZoneInfoNotFoundError

    from clew.runtime.zones import find_zone

    try:
        return find_zone(name or app.config.session.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise click.UsageError(f'There is no time zone "{name}". Europe/Berlin is one.') from error


def _read_time(text: str, zone: tzinfo, option: str) -> int:
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise click.UsageError(
            f"{option} must be a time such as 2026-03-10T08:00, not {text[:40]!r}."
        ) from error


def _iso(at: int | None, zone: tzinfo) -> str | None:
    if at is None:
        return None
    moment = datetime.fromtimestamp(at / 1000, zone)
    return moment.isoformat(timespec="milliseconds" if at % 1000 else "seconds")
