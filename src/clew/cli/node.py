"""`clew node`: another machine talks to a gateway, in a session of its own there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from clew.cli.app import App, gateway_options, json_option, pass_app

if TYPE_CHECKING:
    from clew.core.turn import Turn


@click.group("node")
def node_group() -> None:
    """Call a gateway from another machine, which has a session of its own there."""


@node_group.command("run")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@gateway_options
@click.option("--name", metavar="NAME", help="What this machine is called; its host name usually.")
@click.option("--agent", metavar="ID", default="main", help="Which agent answers.")
@json_option
@pass_app
def node_run(app: App, words: tuple[str, ...], name: str | None, agent: str) -> None:
    """Say something to the gateway as this machine, and print the answer.

    What is piped in comes behind it. All that one machine says is one session there, under the key
    agent:<agent>:node-<name>.

    \b
    Examples:
      df -h | clew node run --url https://clew.example.org "Is any disk nearly full?"
      clew node run --url https://clew.example.org --name backup "The backup is done."
    """
    from clew.cli.talking import run_talk

    if app.gateway is None:
        raise click.UsageError("Which gateway? Name it with --url, or in CLEW_URL.")
    parts = [" ".join(words).strip()]
    if not sys.stdin.isatty():
        parts.append(sys.stdin.buffer.read().decode(errors="replace").strip())
    text = "\n\n".join(part for part in parts if part)
    if not text:
        raise click.UsageError("Say something: give it as words, or pipe it in.")
    run_talk(app, _run(app, text, _key(name, agent)))


def _key(name: str | None, agent: str) -> str:
    import platform

    from clew.core.channelkeys import ChannelKey, format_key, normalise_word
    from clew.core.routing import normalise_agent

    node = normalise_word(platform.node() if name is None else name)
    if not node:
        raise click.UsageError("A machine needs a name of letters and digits: say --name.")
    return format_key(ChannelKey(normalise_agent(agent), "node", node))


async def _run(app: App, text: str, key: str) -> int:
    from clew.core.signals import Committed, TurnEnded
    from clew.core.text import strip_controls

    answer: str | None = None
    turn: Turn | None = None
    async with app.open_client() as client:
        async for frame in client.chat.send(text, key=key):
            if isinstance(frame.event, Committed) and frame.event.message.role == "assistant":
                answer = frame.event.message.content or answer
            elif isinstance(frame.event, TurnEnded):
                turn = frame.event.turn
    if turn is None:
        app.note("The gateway ended the connection before the answer was there. The turn goes on.")
        return 1
    if app.json:
        value = {"session_id": turn.session_id, "turn_id": turn.id, "status": turn.status}
        app.emit(value | {"key": key, "answer": answer, "error": turn.error})
    elif turn.status == "done":
        app.say(strip_controls(answer or ""))
    else:
        app.note(f"The turn is {turn.status}: {turn.error or 'no reason is known'}.")
    return 0 if turn.status == "done" else 1
