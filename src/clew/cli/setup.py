"""`clew setup`: lead through the choice of the model that answers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from clew.cli.app import App, client_command

if TYPE_CHECKING:
    from clew.core.models import ModelInfo


@click.command("setup")
@client_command
def setup_command(app: App) -> None:
    """Choose the model that answers: provider, key, test, done.

    Finds Ollama, LM Studio, llama-server and vLLM on this machine. A key that you type is not
    shown, and kept in a file that only you can read. Without a terminal use `clew model set` and
    `clew config set`.

    \b
    Examples:
      clew setup
      clew setup --url https://clew.example.org --token file:token
    """
    if not sys.stdin.isatty():
        raise click.UsageError(
            "`clew setup` asks questions, and nobody can answer here. Scripts use "
            "`clew config set providers.NAME.api_key env:VARIABLE` and `clew model set NAME`."
        )
    from clew.terminal.setup import set_up

    info: ModelInfo | None = app.call(lambda client: set_up(client, ConsoleAsker(app)))
    if info is not None:
        app.answer({"model": info}, f"{info.name} answers from now on. `clew` begins a chat.")


class ConsoleAsker:
    """Asks on the terminal, while nothing else runs."""

    def __init__(self, app: App) -> None:
        self._app = app

    def note(self, text: str, style: str | None = "dim") -> None:
        """Print a line, not as an answer."""
        self._app.note(text if style is None else self._app.colour_aside(text, style))

    async def ask(self, question: str) -> str:
        """A line from the person."""
        return await self.ask_text(question)

    async def ask_text(self, question: str, *, hidden: bool = False) -> str:
        """A line from the person."""
        typed: str = click.prompt(
            question.rstrip(),
            "",
            hide_input=hidden,
            show_default=False,
            prompt_suffix=" ",
            err=True,
        )
        return typed.strip()
