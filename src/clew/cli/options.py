"""Arguments and options that several commands share: sessions, times, words with a hyphen.

Which session a person means is decided behind the API (`sessions.resolve`), by the same steps in
process and at a gateway.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, tzinfo
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import click

from clew.cli.app import App, gateway_options
from clew.core.keys import id_prefix
from clew.core.names import parse_duration
from clew.errors import AmbiguousId, ClewError, NotFound

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from clew.api.sessions import SessionView
    from clew.client.client import Client

F = TypeVar("F", bound=Callable[..., Any])

ALONE = "\0"
"""The value of `--resume` and `--continue` without one; it can't be typed."""

COMPLETION_S: Final = 3.0
"""Seconds that a completion may take."""


def session_options(*, asks: bool = False) -> Callable[[F], F]:
    """The options that choose a session. `asks`: for a single question, which is no ID of `-c`."""
    last = click.option(
        "-c", "--continue", "continues", is_flag=False, flag_value=ALONE, metavar="[ID]",
        shell_complete=complete_session,
        help="Go on with this terminal's last session, or with ID.",
    )  # fmt: skip
    if asks:
        last = click.option(
            "-c", "--continue", "continues", is_flag=True, flag_value=ALONE,
            help="Go on with the last question here, or with your chat if that is newer.",
        )  # fmt: skip
    options = [
        last,
        click.option(
            "-r", "--resume", is_flag=False, flag_value=ALONE, metavar="[ID]",
            shell_complete=complete_session,
            help="Go on with the session ID: an id, title, key or transcript. Alone: choose one.",
        ),
        click.option("--fork", is_flag=True, help="Talk in a branch of the session."),
        *([] if asks else [click.option("--read-only", is_flag=True, help="Only look.")]),
        click.option("--key", metavar="NAME", help="The session's key (CLEW_SESSION_KEY)."),
        click.option(
            "--allow-directory", is_flag=True,
            help="Let the agent work on the files here, even if this is your home directory or /.",
        ),
        click.option(
            "--model", metavar="NAME",
            help="The model of the session from now on, as /model sets it.",
        ),
        gateway_options,
        click.option("--no-gateway", is_flag=True, help="Use no gateway, even if one runs here."),
    ]  # fmt: skip

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# --- sessions -----------------------------------------------------------------------------------


async def find_each(
    client: Client, typed_ids: Sequence[str], *, trashed: bool = False
) -> tuple[tuple[SessionView, ...], tuple[ClewError, ...]]:
    """Find sessions to change: each of them once, and the errors of those not found."""
    sessions: dict[str, SessionView] = {}
    failures: list[ClewError] = []
    for typed in typed_ids:
        try:
            session = await client.sessions.resolve(typed, purpose="change", trashed=trashed)
        except (NotFound, AmbiguousId) as error:
            failures.append(error)
        else:
            sessions[session.id] = session
    return tuple(sessions.values()), tuple(failures)


def session_argument(command: F) -> F:
    """An argument for one session; the parameter is `typed`."""
    return click.argument("typed", metavar="ID", shell_complete=complete_session)(command)


def sessions_argument(*, required: bool = True) -> Callable[[F], F]:
    """An argument for several sessions; the parameter is `typed_ids`."""
    return click.argument(
        "typed_ids",
        metavar="ID..." if required else "[ID]...",
        nargs=-1,
        required=required,
        shell_complete=complete_session,
    )


def complete_session(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a session id in the shell; the names are shown as help."""
    from click.shell_completion import CompletionItem

    app = ctx.ensure_object(App)
    flags = ctx.find_root().params
    app.configure(
        home=flags.get("home"), store=flags.get("store"), file=flags.get("file"), verbose=False
    )
    try:
        found = app.call(lambda client: _find_completions(client, incomplete))
    except (ClewError, TimeoutError, click.UsageError):
        return []  # a completion can't show an error
    return [CompletionItem(each.short_id, help=each.name) for each in found]


async def _find_completions(client: Client, incomplete: str) -> Sequence[SessionView]:
    """The newest sessions, or those whose id begins with what was typed."""
    async with asyncio.timeout(COMPLETION_S):
        if not incomplete:
            return (await client.sessions.list(limit=20)).sessions
        found = await client.sessions.find(incomplete, purpose="change")
    prefix = id_prefix(incomplete)
    return [each for each in found if prefix is not None and each.id.startswith(prefix)][:50]


# --- times and words ----------------------------------------------------------------------------


class Duration(click.ParamType[int]):
    """A duration such as `90d`, `12h` or `2w`, as milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse it with `core.names.parse_duration`."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_moment(
    text: str, *, now: int, zone: Callable[[int], tzinfo], end_of_day: bool = False
) -> int:
    """Read an ISO date or time, or a duration before `now`, as milliseconds UTC.

    `zone` returns the person's time zone at a moment. A date without a time is its first
    millisecond, or its last with `end_of_day`.
    """
    try:
        return now - parse_duration(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
        if end_of_day and len(text.strip()) <= len("2026-01-31"):
            moment = datetime.combine(moment.date(), time.max)
        if moment.tzinfo is None:
            # The offset at about that time; wrong only in the hours around a clock change.
            about = int(moment.replace(tzinfo=UTC).timestamp() * 1000)
            moment = moment.replace(tzinfo=zone(about))
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(
            f"{text[:40]!r} is neither a date (2026-01-31, 2026-01-31T10:30) nor a duration (7d)."
        ) from error


def parse_time_option(
    app: App, option: str, text: str | None, *, end_of_day: bool = False
) -> int | None:
    """The value of a time option, not before 1970; `BadParameter` if it is not a time."""
    if text is None:
        return None
    try:
        return max(0, parse_moment(text, now=app.now, zone=app.zone, end_of_day=end_of_day))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


class HyphenWords(click.Command):
    """A command that takes arguments matching `hyphened` as words, not as options."""

    hyphened: ClassVar[re.Pattern[str]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move such words behind the options, in their order."""
        options = args[: args.index("--")] if "--" in args else args
        words = args[len(options) + 1 :]
        hyphened = [each for each in options if self.hyphened.match(each)]
        rest = [each for each in options if each not in hyphened]
        return super().parse_args(ctx, [*rest, "--", *hyphened, *words])
