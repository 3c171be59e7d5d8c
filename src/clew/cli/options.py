"""Options that choose a session to talk in, for `clew`, `clew chat` and `clew ask`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

ALONE = "\0"
"""What `--resume` and `--continue` are without a value; nobody can type it."""


def session_options(*, read_only: bool) -> Callable[[F], F]:
    """The options that choose a session."""
    options = [
        click.option(
            "-c", "--continue", "continues", is_flag=False, flag_value=ALONE, metavar="[ID]",
            shell_complete=_complete,
            help="Go on with this terminal's last session, or with ID.",
        ),
        click.option(
            "-r", "--resume", is_flag=False, flag_value=ALONE, metavar="[ID]",
            shell_complete=_complete,
            help="Go on with the session ID: an id, title, key or transcript. Alone: choose one.",
        ),
        click.option("--fork", is_flag=True, help="In a branch of the session, not in itself."),
        *([click.option("--read-only", is_flag=True, help="Only look.")] if read_only else []),
        click.option("--key", metavar="NAME", help="The session's key (CLEW_SESSION_KEY)."),
        click.option("--url", metavar="URL", help="Talk at the gateway there (CLEW_URL)."),
        click.option(
            "--token", metavar="TOKEN",
            help="A token of it, or env:NAME, or file:PATH (CLEW_TOKEN).",
        ),
        click.option("--no-gateway", is_flag=True, help="In this process, even if one runs here."),
    ]  # fmt: skip

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _complete(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from clew.cli.resolve import complete_session  # only a shell that completes needs it

    return complete_session(ctx, parameter, incomplete)
