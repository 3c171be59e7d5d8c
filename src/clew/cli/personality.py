"""`clew personality`: personalities of the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from clew.cli.app import App, client_command
from clew.cli.tables import Column, answer_table, facts
from clew.core.text import strip_controls

if TYPE_CHECKING:
    from clew.core.models import Personality


@click.group("personality")
def personality_group() -> None:
    """Personalities of the agent: how it speaks, which tools it has, what it remembers.

    In a chat, /personality ID changes to one. The session stays the same.
    """


@personality_group.command("list")
@client_command
def personality_list(app: App) -> None:
    """List the personalities, your own and those that come with clew.

    \b
    Examples:
      clew personality list
      clew personality list --json
    """
    listed = app.call(lambda client: client.personalities.list(), opens_store=False)
    columns = (
        Column("ID", "id"),
        Column("NAME", "bold"),
        Column("FROM", "dim"),
        Column("MEMORY", optional=2),
        Column("DESCRIPTION", least=20, optional=1),
    )
    rows = [
        (
            each.id,
            each.name,
            "clew" if each.builtin else "you",
            "own" if each.memory_scope == "per-personality" else "shared",
            each.description,
        )
        for each in listed
    ]
    answer_table(app, {"personalities": [_value(each) for each in listed]}, columns, rows)


@personality_group.command("show")
@click.argument("personality_id", metavar="ID")
@client_command
def personality_show(app: App, personality_id: str) -> None:
    """Show one personality, with the beginning of its system prompt.

    \b
    Examples:
      clew personality show engineer
      clew personality show coach --json
    """
    found = app.call(lambda client: client.personalities.get(personality_id), opens_store=False)
    if app.json:
        app.emit(_value(found))
        return
    app.say(app.colour(strip_controls(found.name, keep_newlines=False), "bold"))
    tools = "all except special ones" if found.tools is None else ", ".join(found.tools) or "none"
    pairs = [
        ("id", found.id),
        ("from", "clew" if found.builtin else "you"),
        ("about", found.description),
        ("model", found.model or "the session's"),
        ("thinking", found.thinking or "the session's"),
        ("memory", "files of its own" if found.memory_scope == "per-personality" else "shared"),
        ("tools", tools),
    ]
    shown = [(name, strip_controls(value, keep_newlines=False)) for name, value in pairs if value]
    app.say("\n".join(facts(app, shown)))
    if found.soul.strip():
        app.say()
        app.say(strip_controls(found.soul).strip())


def _value(personality: Personality) -> dict[str, object]:
    """All fields, also those with their default."""
    return {
        name: msgspec.to_builtins(getattr(personality, name))
        for name in personality.__struct_fields__
    }
