"""What every command gets: the configuration, a client for as long as it works, and two streams.

Answers go to stdout, everything else to stderr. Commands parse, make one call through `call` and
render; they open nothing themselves.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
import msgspec

from clew import config as configuration
from clew.clock import host_clock
from clew.config import Config, Places
from clew.core.names import time_ago
from clew.core.settings import Secret
from clew.core.text import to_wire

if TYPE_CHECKING:
    from clew.cli.progress import Progress, UpdateReport
    from clew.client.client import Client

T = TypeVar("T")

STYLES: Final[dict[str, dict[str, Any]]] = {
    "bold": {"bold": True},
    "dim": {"dim": True},
    "id": {"fg": "yellow"},
    "match": {"fg": "red", "bold": True},
    "user": {"fg": "cyan", "bold": True},
    "assistant": {"fg": "green", "bold": True},
    "tool": {"fg": "magenta"},
    "good": {"fg": "green"},
    "warning": {"fg": "yellow"},
    "error": {"fg": "red"},
}
DEFAULT_WIDTH: Final = 80

# Terminals obey these; inside JSON's strings they can be spelled out.
_CONTROLS: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


class Gateway(NamedTuple):
    """A gateway that was named, and the token for it."""

    url: str
    token: str | None


class App:
    """One run of the command line."""

    def __init__(self) -> None:
        self.json = False
        self.verbose = False
        self._home: str | None = None
        self._store: str | None = None
        self._file: str | None = None
        self.url: str | None = None
        self.token: str | None = None

    def configure(
        self, *, home: str | None, store: str | None, file: str | None, verbose: bool
    ) -> None:
        """Take the global flags."""
        self._home, self._store, self._file = home, store, file
        self.verbose = verbose

    @cached_property
    def config(self) -> Config:
        """The configuration, read when it is first asked for; `InvalidConfig` if it is broken."""
        return configuration.load(home=self._home, store=self._store, file=self._file)

    @cached_property
    def places(self) -> Places:
        """Where the files are, even if what they say is broken."""
        return configuration.locate(home=self._home, file=self._file)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work that needs no client."""
        return asyncio.run(work)

    def call(self, work: Callable[[Client], Awaitable[T]], *, opens_store: bool = True) -> T:
        """Do the work with a client: of the gateway that was named, else in this process.

        In process it works on the store itself, also while a gateway runs for it. What needs no
        store (memory, personalities, the list of jobs) can do without: then none is made.
        """

        async def run() -> T:
            async with self.open_client(opens_store=opens_store) as client:
                return await work(client)

        return asyncio.run(run())

    def open_client(self, *, opens_store: bool = True) -> AbstractAsyncContextManager[Client]:
        """The client of this run, for as long as the block lasts."""
        gateway = self.gateway
        if gateway is not None:
            from clew.client.client import Client

            return Client(gateway.url, gateway.token)
        from clew.wiring import local, local_files

        if opens_store:
            return local(config=self.config, report=self.report_update)
        return local_files(self.config)

    @property
    def gateway(self) -> Gateway | None:
        """The gateway that `--url` or CLEW_URL names, with the token for it; None if none does."""
        url = self.url or self.config.gateway_url
        given = Secret(self.token) if self.token else self.config.gateway_token
        if url is None:
            if self.token is not None:
                raise click.UsageError("--token goes with --url: which gateway is it for?")
            return None
        return Gateway(url, None if given is None else configuration.reveal(given))

    # --- output -------------------------------------------------------------------------------

    def say(self, text: str = "") -> None:
        """A line of the answer."""
        click.echo(text)

    def note(self, text: str) -> None:
        """A line beside the answer."""
        click.echo(text, err=True)

    def emit(self, value: object) -> None:
        """The answer as one JSON document, indented for a terminal."""

        click.echo(encode(value, indent=sys.stdout.isatty()))

    def answer(self, value: object, text: str) -> None:
        """What a command has done, for programs or for people."""
        if self.json:
            self.emit(value)
        else:
            self.say(text)

    def colour(self, text: str, style: str) -> str:
        """Text in one of the `STYLES` (or a colour's name), if stdout is a terminal that may."""
        if not self._coloured:
            return text
        return click.style(text, **STYLES.get(style, {"fg": style}))

    def colour_aside(self, text: str, style: str) -> str:
        """The same for a line beside the answer."""
        if not self._coloured_aside:
            return text
        return click.style(text, **STYLES.get(style, {"fg": style}))

    @cached_property
    def _coloured(self) -> bool:
        return sys.stdout.isatty() and configuration.wants_colour()

    @cached_property
    def _coloured_aside(self) -> bool:
        return sys.stderr.isatty() and configuration.wants_colour()

    @property
    def is_dark(self) -> bool:
        """Whether a whole screen is drawn for a dark terminal."""
        theme = self.config.terminal.theme
        return not configuration.has_light_background() if theme == "auto" else theme == "dark"

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where lines may have any length."""
        if not sys.stdout.isatty():
            return None
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_WIDTH
        except OSError:
            return DEFAULT_WIDTH

    def progress(self, label: str, total: int | None = None) -> AbstractContextManager[Progress]:
        """A bar on stderr for work that takes more than about a second."""
        from clew.cli.progress import Progress

        return Progress(label, total, shown=sys.stderr.isatty())

    @cached_property
    def report_update(self) -> UpdateReport:
        """Shows how the update of an older store goes on: a line, then bars."""
        from clew.cli.progress import UpdateReport

        return UpdateReport(self.note, shown=sys.stderr.isatty())

    def confirm(self, question: str) -> bool:
        """Ask; anything but yes is a no. Without a terminal to ask at, it is wrong usage."""
        if not sys.stdin.isatty():
            raise click.UsageError(f"{question} There is no terminal to ask at: use --yes.")
        click.echo(f"{question} [y/N] ", err=True, nl=False)
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            click.echo(err=True)  # Ctrl+D has left the cursor behind the question
        return answer.strip().lower() in ("y", "yes")

    # --- time ---------------------------------------------------------------------------------

    @cached_property
    def now(self) -> int:
        """When this run began, in milliseconds UTC."""
        return self.clock()

    @staticmethod
    def clock() -> int:
        """The time now, in milliseconds UTC."""
        return host_clock()

    def zone(self, at: int) -> tzinfo:
        """The person's time zone: the configured one, else the host's as it was at that moment."""
        name = self.config.session.timezone
        if name is not None:
            from zoneinfo import ZoneInfo

            return ZoneInfo(name)
        return datetime.fromtimestamp(at / 1000, UTC).astimezone().tzinfo or UTC

    @property
    def timezone(self) -> str | None:
        """The person's time zone, told to a gateway; None in process, where it is known."""
        if self.gateway is None:
            return None
        return self.config.session.timezone or configuration.host_timezone()

    def ago(self, at: int) -> str:
        """How long ago that was."""
        try:
            return time_ago(at, self.now, self.zone(at))
        except (ValueError, OverflowError, OSError):
            return "unknown"  # an import may claim any number

    def local_time(self, at: int) -> str:
        """Date and minute where the person is."""
        try:
            return datetime.fromtimestamp(at / 1000, self.zone(at)).strftime("%Y-%m-%d %H:%M")
        except (ValueError, OverflowError, OSError):
            return "unknown time"


pass_app = click.make_pass_decorator(App)


def _print_json(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(App).json = True


# Eager, so that errors in other options are JSON too.
json_option = click.option(
    "--json",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_json,
    help="Print JSON, errors too.",
)


def _name_gateway(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        setattr(ctx.ensure_object(App), parameter.name or "", value)


F = TypeVar("F", bound=Callable[..., Any])


def gateway_options(command: F, *, hidden: bool = False) -> F:
    """`--url` and `--token`: the command works at a gateway (`App.call`)."""
    for option in (
        click.option(
            "--token", metavar="TOKEN", expose_value=False, callback=_name_gateway, hidden=hidden,
            help="A token of it, or env:NAME, or file:PATH (CLEW_TOKEN).",
        ),
        click.option(
            "--url", metavar="URL", expose_value=False, callback=_name_gateway, hidden=hidden,
            help="Work at the gateway there (CLEW_URL).",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def only_here(command: F) -> F:
    """A command for this machine's own files: where a gateway is named, it says so and ends."""

    @functools.wraps(command)
    def checked(*args: Any, **options: Any) -> Any:
        ctx = click.get_current_context()
        refuse_gateway(ctx.ensure_object(App), f"`{ctx.command_path}`")
        return command(*args, **options)

    return gateway_options(checked, hidden=True)  # type: ignore[return-value]  # takes the same


def refuse_gateway(app: App, what: str) -> None:
    """`InvalidInput` where a gateway is named, for what is done to this machine's own files."""
    from clew.errors import InvalidInput

    if app.url is not None or configuration.find_gateway_url() is not None:
        raise InvalidInput(
            f"{what} works on the files of this machine, not at a gateway. Leave out --url (or "
            "CLEW_URL), and run it where the store is. Nothing was changed."
        )


def encode(value: object, *, indent: bool = False) -> str:
    """The value as one JSON document."""
    data = to_wire(value)
    if indent:
        data = msgspec.json.format(data, indent=2)
    return data.decode().translate(_CONTROLS)
