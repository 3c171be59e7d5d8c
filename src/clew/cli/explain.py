"""`clew explain`: why clew decides as it does, from the same functions that decide.

Nothing is opened, imported, moved or written here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from clew.cli.app import App, json_option, pass_app
from clew.cli.jsonout import session_value
from clew.cli.rules import reset_command, route_command, send_command, trigger_command
from clew.cli.tables import facts, home_relative, listed_name
from clew.core.text import strip_controls

if TYPE_CHECKING:
    from clew.core.keys import Place
    from clew.core.resume import Rejected, Resolution
    from clew.core.session import Session
    from clew.ports import Store

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
    "fresh": "/new was the last act in this terminal",
    "none": "there is no session yet",
}
NEW: Final = "a new one, with the first message"


class Explanation(msgspec.Struct, frozen=True):
    """What would be opened: the same as facts for people and as a value for programs.

    `session` is the one, `candidates` those to choose from, `rejected` those that were not it.
    """

    facts: tuple[tuple[str, str], ...]
    value: dict[str, Any]
    session: Session | None = None
    candidates: tuple[Session, ...] = ()
    rejected: tuple[tuple[Session, Rejected], ...] = ()
    short_ids: dict[str, str] = {}


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


for _command in (route_command, reset_command, send_command, trigger_command):
    explain_group.add_command(_command)


@explain_group.command("resume")
@click.argument("value", metavar="[VALUE]", required=False)
@click.option("-c", "--continue", "continued", is_flag=True, help="What --continue would open.")
@click.option("--key", metavar="KEY", help="With this session key, instead of the directory's.")
@json_option
@pass_app
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
    from clew.client.place import locate

    place = locate(scope=app.config.session.scope)

    async def look(store: Store) -> Explanation:
        if value is not None:
            return await _explain_value(store, value, place)
        if continued:
            return await _explain_continue(app, store, place)
        return await _explain_key(store, place, key or app.config.session_key)

    explanation = app.run(look)
    if app.json:
        app.emit(explanation.value | _sessions_value(explanation))
    else:
        app.say("\n".join(_render(app, explanation)))


# --- looking ----------------------------------------------------------------------------------


async def _explain_value(store: Store, value: str, place: Place) -> Explanation:
    from clew.core.resume import STEP_NAMES, STEPS, word_question
    from clew.runtime.resuming import find_question, resolve_resume

    resolution = await resolve_resume(store, value, place)
    step = resolution.step
    told = "none of the six" if step is None else f"{STEPS.index(step) + 1}, {STEP_NAMES[step]}"
    pairs = [("step", told)]
    if resolution.path is not None:
        pairs += [("file", strip_controls(resolution.path, keep_newlines=False))]
    elif not resolution.matches:
        pairs += [("session", "none is found")]
    question = None
    if resolution.session is not None:
        question = find_question(resolution.session, place)
        if question is not None:
            pairs += [("asks", word_question(resolution.session, place, question))]
    known: dict[str, Any] = {
        "value": resolution.value,
        "step": step,
        "path": resolution.path,
        "question": question,
    }
    return await _with_sessions(store, Explanation(tuple(pairs), known), resolution)


async def _with_sessions(
    store: Store, explanation: Explanation, resolution: Resolution
) -> Explanation:
    turned_down = [(await store.get_session(each.session_id), each) for each in resolution.rejected]
    involved = [*resolution.matches, *(session for session, _ in turned_down)]
    return msgspec.structs.replace(
        explanation,
        session=resolution.session,
        candidates=resolution.matches if resolution.session is None else (),
        rejected=tuple(turned_down),
        short_ids=await store.shorten_ids([each.id for each in involved]),
    )


async def _explain_continue(app: App, store: Store, place: Place) -> Explanation:
    from clew.config import terminal_variables
    from clew.runtime.continuing import find_continue
    from clew.terminal.breadcrumbs import find_terminal, read_breadcrumb

    terminal = find_terminal(terminal_variables())
    breadcrumb = read_breadcrumb(app.config.state_dir, terminal)
    found = await find_continue(store, place, breadcrumb)
    pairs = [("why", WHYS[found.why]), ("terminal", terminal or "can't be told from others")]
    known: dict[str, Any] = {"why": found.why, "terminal": terminal, "note": found.note}
    return await _with_session(store, Explanation(tuple(pairs), known), found.session)


async def _explain_key(store: Store, place: Place, explicit: str | None) -> Explanation:
    from clew.runtime.projects import find_cli_key

    choice = await find_cli_key(store, place, explicit, follow=False)
    rule = RULES[choice.rule].format(old=home_relative(choice.moved_from))
    pairs = [
        ("key", strip_controls(choice.key, keep_newlines=False)),
        ("why", strip_controls(rule, keep_newlines=False)),
    ]
    known: dict[str, Any] = {
        "key": choice.key,
        "rule": choice.rule,
        "moved_from": choice.moved_from,
    }
    return await _with_session(store, Explanation(tuple(pairs), known), choice.session)


async def _with_session(
    store: Store, explanation: Explanation, session: Session | None
) -> Explanation:
    if session is None:
        return msgspec.structs.replace(explanation, facts=(*explanation.facts, ("session", NEW)))
    short_ids = await store.shorten_ids([session.id])
    return msgspec.structs.replace(explanation, session=session, short_ids=short_ids)


# --- showing ----------------------------------------------------------------------------------


def _sessions_value(explanation: Explanation) -> dict[str, Any]:
    session, short_ids = explanation.session, explanation.short_ids
    return {
        "session": None if session is None else session_value(session, short_ids),
        "candidates": [session_value(each, short_ids) for each in explanation.candidates],
        "rejected": [rejected for _, rejected in explanation.rejected],
    }


def _render(app: App, explanation: Explanation) -> Iterator[str]:
    from clew.cli.tables import candidate_lines
    from clew.core.resume import candidate_of

    pairs = list(explanation.facts)
    session = explanation.session
    if session is not None:
        pairs += [
            ("session", session.id),
            ("title", strip_controls(listed_name(session), keep_newlines=False)),
            ("directory", strip_controls(home_relative(session.cwd) or "none")),
            ("updated", app.ago(session.updated_at)),
        ]
    yield from facts(app, pairs)
    if explanation.candidates:
        yield ""
        yield "Several fit, so you would have to choose:"
        yield from candidate_lines(
            app,
            [candidate_of(each, explanation.short_ids[each.id]) for each in explanation.candidates],
        )
    if explanation.rejected:
        yield ""
        yield "Not these:"
    for other, rejected in explanation.rejected:
        name = strip_controls(listed_name(other), keep_newlines=False)
        yield f"  {explanation.short_ids[other.id]}  {name}: {rejected.why}"
