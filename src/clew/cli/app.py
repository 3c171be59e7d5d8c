"""What every command gets: the configuration, a client, two output streams, a progress bar.

The answer goes to stdout, everything else to stderr. Commands parse, make one call through `call`
and render the result; they open nothing themselves.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeVar

import click
import msgspec

from clew import config as configuration
from clew.clock import host_clock
from clew.config import Config, Places
from clew.core.names import time_ago
from clew.core.settings import Secret
from clew.core.text import is_yes, to_wire

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from clew.client.client import Client
    from clew.gateway.running_gateway import Running

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
BAR_AFTER_S: Final = 1.0
"""Seconds of work before a progress bar appears."""

# Control characters that a terminal would obey; inside JSON strings they can be escaped.
_CONTROLS: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


class Gateway(NamedTuple):
    """The address of a gateway, and a token for it."""

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
        """Set the global flags."""
        self._home, self._store, self._file = home, store, file
        self.verbose = verbose

    @cached_property
    def config(self) -> Config:
        """The configuration, read when it is first asked for; `InvalidConfig` if it is broken."""
        return self.read_config()

    @property
    def names_config(self) -> bool:
        """Whether a config file was named."""
        return self._file is not None

    def read_config(self) -> Config:
        """Read the configuration anew, with the same flags."""
        return configuration.load(home=self._home, store=self._store, file=self._file)

    @cached_property
    def places(self) -> Places:
        """Where the files are. Works also with a broken config file."""
        return configuration.locate(home=self._home, file=self._file)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that needs no client."""
        return asyncio.run(work)

    def call(self, work: Callable[[Client], Awaitable[T]], *, opens_store: bool = True) -> T:
        """Run `work` with a client: of the gateway that was named, else in this process.

        In process it uses the store itself, also while a gateway runs for it. Calls that need no
        store (memory, personalities, the list of jobs) say so; then none is opened or created.
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
                raise click.UsageError("--token needs --url: which gateway is it for?")
            return None
        return Gateway(url, None if given is None else configuration.reveal(given))

    def find_running(self) -> Running | None:
        """The gateway that runs for this store, if one does."""
        from clew.gateway.running_gateway import find_running

        return find_running(self.config.state_dir, self.config.store.url)

    # --- output -------------------------------------------------------------------------------

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the answer, and no file, program or log."""
        return sys.stdout.isatty()

    def say(self, text: str = "") -> None:
        """Print a line of the answer."""
        click.echo(text)

    def note(self, text: str) -> None:
        """Print a line that is not part of the answer, on stderr."""
        click.echo(text, err=True)

    def emit(self, value: object) -> None:
        """Print the answer as one JSON document, indented for a terminal."""
        click.echo(encode(value, indent=sys.stdout.isatty()))

    def answer(self, value: object, text: str) -> None:
        """Print what a command did: `value` with --json, else `text`."""
        if self.json:
            self.emit(value)
        else:
            self.say(text)

    def colour(self, text: str, style: str) -> str:
        """Text for stdout in one of the `STYLES` (or a colour's name), if colours are shown."""
        return _style(text, style) if self._coloured else text

    def colour_aside(self, text: str, style: str) -> str:
        """The same for stderr."""
        return _style(text, style) if self._coloured_aside else text

    @cached_property
    def _coloured(self) -> bool:
        return sys.stdout.isatty() and configuration.wants_colour()

    @cached_property
    def _coloured_aside(self) -> bool:
        return sys.stderr.isatty() and configuration.wants_colour()

    @property
    def is_dark(self) -> bool:
        """Whether full-screen views use colours for a dark background."""
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

    def progress(self, label: str, total: int | None = None, *, unit: Unit = "") -> Progress:
        """A progress bar on stderr, shown if the work takes more than about a second."""
        return Progress(label, total, shown=sys.stderr.isatty(), unit=unit)

    @cached_property
    def report_update(self) -> UpdateReport:
        """Shows how the update of an older store goes on."""
        return UpdateReport(self)

    def confirm(self, question: str) -> bool:
        """Ask a yes/no question; anything but yes is no. `UsageError` without a terminal."""
        if not sys.stdin.isatty():
            raise click.UsageError(f"{question} There is no terminal to ask at: use --yes.")
        click.echo(f"{question} [y/N] ", err=True, nl=False)
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            click.echo(err=True)  # Ctrl+D has left the cursor behind the question
        return is_yes(answer)

    # --- time ---------------------------------------------------------------------------------

    @cached_property
    def now(self) -> int:
        """When this run began, in milliseconds UTC."""
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
        """The person's time zone, to send to a gateway; None in process, where it is known."""
        if self.gateway is None:
            return None
        return self.config.session.timezone or configuration.host_timezone()

    def ago(self, at: int) -> str:
        """How long ago a moment was."""
        try:
            return time_ago(at, self.now, self.zone(at))
        except (ValueError, OverflowError, OSError):
            return "unknown"  # an import may claim any number

    def local_time(self, at: int) -> str:
        """Date and minute of a moment, in the person's time zone."""
        try:
            return datetime.fromtimestamp(at / 1000, self.zone(at)).strftime("%Y-%m-%d %H:%M")
        except (ValueError, OverflowError, OSError):
            return "unknown time"


pass_app = click.make_pass_decorator(App)


def _style(text: str, style: str) -> str:
    return click.style(text, **STYLES.get(style, {"fg": style}))


# --- options of all commands --------------------------------------------------------------------


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
    """`--url` and `--token`: the command can use a gateway (`App.gateway`)."""
    for option in (
        click.option(
            "--token", metavar="TOKEN", expose_value=False, callback=_name_gateway, hidden=hidden,
            help="A token for it, or env:NAME, or file:PATH (CLEW_TOKEN).",
        ),
        click.option(
            "--url", metavar="URL", expose_value=False, callback=_name_gateway, hidden=hidden,
            help="Use the gateway at this address (CLEW_URL).",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def client_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that calls a client: gets the `App`, `--url`, `--token` and `--json`."""
    return gateway_options(json_option(pass_app(command)))


def local_command(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command for files of this machine: gets the `App` and `--json`, refuses a gateway."""
    return only_here(json_option(pass_app(command)))


def only_here(command: F) -> F:
    """Let a command refuse to run where `--url` or CLEW_URL names a gateway."""

    @functools.wraps(command)
    def checked(*args: Any, **options: Any) -> Any:
        ctx = click.get_current_context()
        refuse_gateway(ctx.ensure_object(App), f"`{ctx.command_path}`")
        return command(*args, **options)

    return gateway_options(checked, hidden=True)  # type: ignore[return-value]  # takes the same


def refuse_gateway(app: App, what: str) -> None:
    """Raise `InvalidInput` if a gateway is named: `what` works on files of this machine."""
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


# --- progress -------------------------------------------------------------------------------------


Unit = Literal["", "bytes"]
"""What a bar counts; bytes are shown as 1.2/3.4 MB."""


class Progress:
    """A progress bar for long work. Nothing is shown in the first second."""

    def __init__(self, label: str, total: int | None, *, shown: bool, unit: Unit = "") -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._unit = unit
        self._shown = shown
        self._bar: Bar | None = None
        self._ended = False
        self._drawing = threading.Lock()
        # A timer, since some work reports no progress before it is done.
        self._timer = threading.Timer(BAR_AFTER_S, self._appear)
        self._timer.daemon = True

    @property
    def visible(self) -> bool:
        """Whether the bar has appeared."""
        return self._bar is not None

    def advance(self, n: int = 1) -> None:
        """Add `n` to what is done."""
        self.done += n
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done, total=self.total)

    def reach(self, done: int, total: int | None = None) -> None:
        """Set what is done, and the total if it is known only now."""
        self.total = self.total if total is None else total
        self.advance(done - self.done)

    def relabel(self, label: str) -> None:
        """Name the part of the work that begins now."""
        self.label = label
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=label)

    def _appear(self) -> None:
        with self._drawing:
            if not self._ended:
                self._bar = self._draw()

    def _draw(self) -> Bar:
        # Imported late: importing rich takes longer than most commands.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        amount = DownloadColumn() if self._unit == "bytes" else MofNCompleteColumn()
        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *([] if self.total is None and not self._unit else [amount, TimeRemainingColumn()]),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        bar.add_task(self.label, total=self.total, completed=self.done)
        bar.start()
        return bar

    def __enter__(self) -> Self:
        if self._shown:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        with self._drawing:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()


class UpdateReport:
    """Shows how the update of an older store goes on: a line first, then a bar for each part."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._bar: Progress | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """The part that is being done, how much of it, of how much; 0 of 0 is said beforehand."""
        if total == 0:
            self._app.note(what)
            return
        if self._bar is None:
            self._bar = self._app.progress(what, total).__enter__()
        self._bar.reach(done)
        if done >= total:
            self._bar.__exit__(None, None, None)
            self._bar = None
