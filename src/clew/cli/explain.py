"""`clew explain`: why clew decides as it does, from the same functions that decide.

They are called through the API, where the configuration is. Only directories, breadcrumbs and
transcript files are read here. Nothing is opened, imported or changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from clew.cli.app import App, client_command
from clew.cli.tables import candidate_lines, facts, home_relative
from clew.core.text import strip_controls

if TYPE_CHECKING:
    from clew.api.explain import RejectedSession
    from clew.api.sessions import SessionView
    from clew.client.client import Client
    from clew.core.channels.resets import ResetPolicy
    from clew.core.keys import Place

T = TypeVar("T")

RULES: Final = {
    "explicit": "it was given",
    "ours": "it is this directory's",
    "moved": "this directory was {old} before, and its sessions follow",
    "free": "no session has it yet",
}
WHYS: Final = {
    "breadcrumb": "it was the last one in this terminal",
    "directory": "it is the newest one of this directory",
    "anywhere": "it is the newest one of all; this directory has none",
    "fresh": "/new was the last command in this terminal",
    "none": "there is no session yet",
}
NEW: Final = "a new one, with the first message"

guest_option = click.option(
    "--owner/--guest", "is_owner", default=True, help="Who sends it. [default: the owner]"
)


@click.group("explain")
def explain_group() -> None:
    """Say why clew decides as it does. Nothing is changed.

    \b
    Examples:
      clew explain resume login
      clew explain route --channel telegram --peer dm:123
      clew explain reset --key agent:main:main --updated-at 2026-03-09T23:00
      clew explain send --key agent:main:discord:group:5
      clew explain trigger --text "/new opus fix the build"
    """


def _ask(app: App, work: Callable[[Client], Awaitable[T]]) -> T:
    """Ask the gateway that runs for this store, since its rules decide; else this process.

    With a config file that was named, its rules are explained.
    """
    from clew.errors import GatewayUnavailable
    from clew.gateway.owner_token import find_own_token

    is_plain = app.gateway is None and not app.names_config
    running = app.find_running() if is_plain else None
    if running is None:
        return app.call(work)

    async def run(url: str) -> T:
        from clew.client.client import Client

        async with Client(url, find_own_token(app.config.state_dir)) as client:
            return await work(client)

    try:
        return app.wait(run(running.url))
    except GatewayUnavailable:
        return app.call(work)


# --- the rules for messages of channels ---------------------------------------------------------


@explain_group.command("route")
@click.option("--channel", metavar="NAME", required=True, help="telegram, discord, slack, …")
@click.option("--account", metavar="NAME", default="default", help="Which of its accounts.")
@click.option("--peer", metavar="KIND:ID", help="dm:ID, group:ID or channel:ID.")
@click.option("--guild", metavar="ID", help="The Discord server.")
@click.option("--team", metavar="ID", help="The Slack workspace.")
@click.option("--thread", metavar="ID", help="The thread or topic.")
@click.option("--forum", "is_forum", is_flag=True, help="The Telegram group is a forum.")
@guest_option
@client_command
def route_command(app: App, /, channel: str, **given: Any) -> None:
    """Say which agent and which session key a message would have.

    \b
    Examples:
      clew explain route --channel telegram --peer dm:123
      clew explain route --channel slack --peer channel:C01 --thread 171.2
      clew explain route --channel discord --peer dm:9 --guest --json
    """
    found = _ask(app, lambda client: client.explain.route(channel, **given))
    pairs = [("key", found.key), ("agent", f"{found.agent} ({found.matched_by})")]
    pairs += [("account", found.account)]
    if found.dm_scope is not None:
        pairs += [("direct", found.dm_scope)]
    if found.linked is not None:
        pairs += [("known as", found.linked)]
    considered = [(each.rule, each.verdict) for each in found.considered]
    _answer(app, found, pairs, considered)


@explain_group.command("reset")
@click.option("--key", metavar="KEY", required=True, help="The session's key.")
@click.option("--channel", metavar="NAME", help="Its channel, if the key doesn't name it.")
@click.option("--thread", metavar="ID", help="The thread, if the key doesn't name it.")
@click.option("--updated-at", metavar="TIME", required=True, help="When a person last wrote there.")
@click.option("--now", metavar="TIME", help="When the next message comes. [default: now]")
@click.option("--timezone", metavar="ZONE", help="Used instead of session.timezone.")
@client_command
def reset_command(app: App, /, key: str, updated_at: str, **given: Any) -> None:
    """Say whether a conversation would go on or begin anew, and why.

    Times are ISO; without an offset they are local times of the zone.

    \b
    Examples:
      clew explain reset --key agent:main:main --updated-at 2026-03-09T23:00 --now 2026-03-10T08:00
      clew explain reset --key agent:main:slack:channel:c1:thread:7 --updated-at 2026-03-10T08:00Z
    """
    found = _ask(app, lambda client: client.explain.reset(key, updated_at, **given))
    pairs = [
        ("conversation", "goes on" if found.fresh else f"begins anew ({found.reason})"),
        ("type", f"{found.type}{f' on {found.channel}' if found.channel else ''}"),
        ("policy", _word_policy(found.policy)),
    ]
    pairs += [("boundary", found.boundary)] if found.boundary else []
    pairs += [("idle until", found.idle_until)] if found.idle_until else []
    _answer(app, found, pairs)


def _word_policy(policy: ResetPolicy) -> str:
    minutes = policy.idle_minutes
    pause = "" if minutes is None else f"after {minutes} idle minutes"
    if policy.mode == "daily":
        return f"daily at {policy.at_hour}:00{f', or {pause}' if pause else ''}"
    return pause if policy.mode == "idle" else "never"


@explain_group.command("send")
@click.option("--key", metavar="KEY", required=True, help="The session's key.")
@click.option("--channel", metavar="NAME", help="Its channel, if the key doesn't name it.")
@click.option(
    "--chat-type", type=click.Choice(["direct", "group", "channel"]), help="What kind of chat."
)
@click.option("--override", type=click.Choice(["allow", "deny"]), help="What /send has set.")
@client_command
def send_command(app: App, /, key: str, **given: Any) -> None:
    """Say whether replies in a conversation would be delivered, and why.

    \b
    Examples:
      clew explain send --key agent:main:discord:group:5
      clew explain send --key agent:main:main --channel telegram --override deny
    """
    found = _ask(app, lambda client: client.explain.send(key, **given))
    said = "delivered" if found.decision == "allow" else "stored, not delivered"
    _answer(app, found, [("replies are", said), ("by", found.rule)], found.considered)


@explain_group.command("trigger")
@click.option("--text", metavar="TEXT", required=True, help="The message.")
@click.option("--mention", metavar="NAME", help="The bot's name, which may come before the text.")
@guest_option
@client_command
def trigger_command(app: App, /, text: str, **given: Any) -> None:
    """Say whether a message begins a new conversation.

    Also with which model, and with which first words.

    \b
    Examples:
      clew explain trigger --text "/new opus fix the build"
      clew explain trigger --text "@bot /reset" --mention bot --guest
    """
    found = _ask(app, lambda client: client.explain.trigger(text, **given))
    said = "begins a new conversation" if found.triggered else "is an ordinary message"
    pairs = [("message", said)]
    if found.model:
        pairs += [("model", f"{found.model} ({found.why})")]
    if found.triggered:
        pairs += [("first words", found.remainder or "none: a short greeting")]
    else:
        pairs += [("why", found.why)]
    _answer(app, found, pairs)


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


# --- which session would be opened here ---------------------------------------------------------


class Explanation(msgspec.Struct, frozen=True):
    """What would be opened: `facts` for people, `value` for programs.

    `session` is the one that was found, `candidates` are those to choose from, `rejected` the
    others that were considered.
    """

    facts: tuple[tuple[str, str], ...]
    value: dict[str, Any]
    session: SessionView | None = None
    candidates: tuple[SessionView, ...] = ()
    rejected: tuple[RejectedSession, ...] = ()


@explain_group.command("resume")
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("-c", "--continue", "continued", is_flag=True, help="What --continue would open.")
@click.option("--key", metavar="KEY", help="With this session key, instead of the directory's.")
@client_command
def resume_command(app: App, value: str | None, continued: bool, key: str | None) -> None:
    """Say which session would be opened here, and why.

    With a VALUE, as `--resume VALUE` finds it: a transcript file, an exact id, an exact title, the
    beginning or the end of an id, a key, part of a title; at each step this directory's sessions
    first. Without one, what `clew` alone would open.

    \b
    Examples:
      clew explain resume
      clew explain resume 550e
      clew explain resume "the login" --json
      clew explain resume --continue
    """
    if continued and value is not None:
        raise click.UsageError("Give a VALUE or --continue, not both.")
    from clew.client.seats import locate

    place, explicit = locate(scope=app.config.session.scope), key or app.config.session_key

    async def look(client: Client) -> Explanation:
        if value is not None:
            return await _explain_value(client, value, place)
        if continued:
            return await _explain_continue(app, client, place, explicit)
        return await _explain_key(client, place, explicit)

    explanation = app.call(look)
    if app.json:
        app.emit(explanation.value | _sessions_value(explanation))
    else:
        app.say("\n".join(_render(app, explanation)))


async def _explain_value(client: Client, value: str, place: Place) -> Explanation:
    from clew.client.seats import find_file, find_question
    from clew.core.resume import STEP_NAMES, STEPS, check_value, word_question

    value = check_value(value)
    file, comes_first = await find_file(client, value, place)
    if comes_first:
        return _explain_file(value, str(file))
    found = await client.explain.resume(
        value, cwd=place.cwd, project=place.project, scope=place.scope
    )
    if found.step is None and file is not None:
        return _explain_file(value, str(file), found.rejected)
    session = found.matches[0] if len(found.matches) == 1 else None
    step = found.step
    told = "none of the six" if step is None else f"{STEPS.index(step) + 1}, {STEP_NAMES[step]}"
    pairs = [("step", told)]
    if not found.matches:
        pairs += [("session", "none is found")]
    question = None if session is None else find_question(session, place)
    if session is not None and question is not None:
        pairs += [("asks", word_question(session, place, question))]
    known = {"value": found.value, "step": step, "path": None, "question": question}
    candidates = found.matches if session is None else ()
    return Explanation(tuple(pairs), known, session, candidates, found.rejected)


def _explain_file(value: str, file: str, rejected: tuple[RejectedSession, ...] = ()) -> Explanation:
    from clew.core.resume import STEP_NAMES

    shown = strip_controls(file, keep_newlines=False)
    pairs = (("step", f"1, {STEP_NAMES['path']}"), ("file", shown))
    known = {"value": value, "step": "path", "path": file, "question": None}
    return Explanation(pairs, known, rejected=rejected)


async def _explain_continue(
    app: App, client: Client, place: Place, explicit: str | None
) -> Explanation:
    from clew.api.seats import TerminalBreadcrumb
    from clew.client.seats import tell_place
    from clew.config import terminal_variables
    from clew.core.keys import is_id
    from clew.terminal.breadcrumbs import find_crumbs, find_terminal, read_breadcrumb

    terminal = find_terminal(terminal_variables())
    address = None if app.gateway is None else app.gateway.url
    left = read_breadcrumb(find_crumbs(app.config.state_dir, address), terminal)
    crumb = None
    if left is not None:
        session = left.session_id if is_id(left.session_id or "") else None
        crumb = TerminalBreadcrumb(cwd=left.cwd, session=session, fresh=left.fresh, at=left.at)
    found = await client.explain.continued(tell_place(place), crumb, explicit)
    pairs = [("why", WHYS[found.why]), ("terminal", terminal or "unknown")]
    known: dict[str, Any] = {"why": found.why, "terminal": terminal, "note": found.note}
    return _with_session(pairs, known, found.session)


async def _explain_key(client: Client, place: Place, explicit: str | None) -> Explanation:
    from clew.client.seats import tell_place

    found = await client.explain.key(tell_place(place), explicit)
    rule = RULES[found.rule].format(old=home_relative(found.moved_from))
    pairs = [
        ("key", strip_controls(found.key, keep_newlines=False)),
        ("why", strip_controls(rule, keep_newlines=False)),
    ]
    known: dict[str, Any] = {
        "key": found.key, "rule": found.rule, "moved_from": found.moved_from,
    }  # fmt: skip
    return _with_session(pairs, known, found.session)


def _with_session(
    pairs: list[tuple[str, str]], known: dict[str, Any], session: SessionView | None
) -> Explanation:
    return Explanation((*pairs, *([("session", NEW)] if session is None else [])), known, session)


def _sessions_value(explanation: Explanation) -> dict[str, Any]:
    return {
        "session": explanation.session,
        "candidates": explanation.candidates,
        "rejected": [
            {"session_id": each.session.id, "step": each.step, "why": each.why}
            for each in explanation.rejected
        ],
    }


def _render(app: App, explanation: Explanation) -> Iterator[str]:
    from clew.core.resume import candidate_of

    pairs = list(explanation.facts)
    session = explanation.session
    if session is not None:
        pairs += [
            ("session", session.id),
            ("title", strip_controls(session.listed_name, keep_newlines=False)),
            ("directory", strip_controls(home_relative(session.cwd) or "none")),
            ("updated", app.ago(session.updated_at)),
        ]
    yield from facts(app, pairs)
    if explanation.candidates:
        yield ""
        yield "Several fit, so you would have to choose:"
        found = [candidate_of(each, each.short_id) for each in explanation.candidates]
        yield from candidate_lines(app, found)
    if explanation.rejected:
        yield ""
        yield "Not these:"
    for each in explanation.rejected:
        name = strip_controls(each.session.name, keep_newlines=False)
        yield f"  {each.session.short_id}  {name}: {each.why}"
