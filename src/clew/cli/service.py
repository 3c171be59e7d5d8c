"""`clew service`: the gateway as a service of this user, which starts by itself.

On Linux it is a unit of the user's systemd, on macOS an agent of launchd (written, not tested).
What a service does is `clew serve`; this only writes the file and calls the system's own program.
`clew logs` shows what the gateway has logged, as a service or not.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape

import click

from clew.cli.app import App, local_command
from clew.errors import ClewError
from clew.files.durable import put_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.core.gateway_events import GatewayEvent


ENVIRONMENT: Final = "service.env"
"""A file beside the configuration with lines NAME=VALUE for the service, such as keys."""

NO_SESSION: Final = (
    ". This user has no session of systemd here: su and sudo make none. Log in as this user (ssh "
    "does), or let an administrator run `loginctl enable-linger NAME` first."
)

UNIT: Final = """\
[Unit]
Description=clew gateway
After=network-online.target

[Service]
ExecStart={command}
EnvironmentFile=-{environment}
Restart=on-failure
RestartSec=5
TimeoutStopSec=60

[Install]
WantedBy=default.target
"""

PLIST: Final = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>{name}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
</dict>
</plist>
"""


class Service(NamedTuple):
    """The service of a home: its name, and the file that describes it to the system."""

    name: str
    file: Path


@click.group("service")
def service_group() -> None:
    """Run the gateway as a service, which starts by itself and comes back after a crash."""


@service_group.command("install")
@click.option("--port", type=click.IntRange(1, 65_535), default=7717, show_default=True)
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The directory that the agent works in.",
)
@click.option(
    "--linger/--no-linger",
    default=None,
    help="Let it run while you are not logged in (loginctl enable-linger). [default: ask]",
)
@local_command
def service_install(app: App, port: int, workspace: Path | None, linger: bool | None) -> None:
    """Install the service and start it.

    Keys that it needs go into the file service.env beside the configuration, a line NAME=VALUE
    each, readable for you only: a service does not see the environment of your shell.

    \b
    Examples:
      clew service install
      clew service install --port 8080 --workspace ~/work --linger
    """
    service = find_service(app)
    command = [sys.executable, "-m", "clew", *_options(app), "serve", "--port", str(port)]
    if workspace is not None:
        command += ["--workspace", str(workspace.resolve())]
    environment = app.config.file.parent / ENVIRONMENT
    put_bytes(service.file, _describe(service, command, environment).encode())
    if sys.platform == "darwin":  # pragma: no cover  # written for, not tested here
        _call("launchctl", "load", "-w", str(service.file))
    else:
        _call("systemctl", "--user", "daemon-reload")
        _call("systemctl", "--user", "enable", "--now", service.file.name)
        _offer_lingering(app, linger)
    app.answer(
        {"name": service.name, "file": str(service.file), "environment": str(environment)},
        f"The gateway runs as {service.name}, at http://127.0.0.1:{port}\n"
        f"  Described in {service.file}\n"
        f"  Its environment, if it needs keys: {environment}\n"
        "  `clew service status`, `clew service logs`, `clew gateway link` for your browser.",
    )


@service_group.command("uninstall")
@local_command
def service_uninstall(app: App) -> None:
    """Stop the service and remove it. Sessions and configuration stay.

    \b
    Examples:
      clew service uninstall
    """
    service = _get_service(app)
    if sys.platform == "darwin":  # pragma: no cover  # written for, not tested here
        _call("launchctl", "unload", "-w", str(service.file))
    else:
        _call("systemctl", "--user", "disable", "--now", service.file.name)
    service.file.unlink()
    if sys.platform != "darwin":
        _call("systemctl", "--user", "daemon-reload")
    app.answer({"name": service.name}, f"{service.name} is removed. Your sessions are untouched.")


@service_group.command("start")
@local_command
def service_start(app: App) -> None:
    """Start the service.

    \b
    Examples:
      clew service start
    """
    _act(app, "start", "load", "It is started.")


@service_group.command("stop")
@local_command
def service_stop(app: App) -> None:
    """Stop the service. Running turns get ten seconds; `clew gateway drain` waits for them.

    \b
    Examples:
      clew service stop
    """
    _act(app, "stop", "unload", "It is stopped.")


@service_group.command("status")
@local_command
def service_status(app: App) -> None:
    """Say whether the service is installed, and whether its gateway answers.

    \b
    Examples:
      clew service status
    """
    from clew.gateway.running_gateway import find_running

    service = find_service(app)
    running = find_running(app.config.state_dir)
    installed = service.file.exists()
    state = "answers" if running is not None else "does not run"
    where = "" if running is None else f" at {running.url} (pid {running.pid})"
    app.answer(
        {
            "name": service.name,
            "installed": installed,
            "url": None if running is None else running.url,
            "pid": None if running is None else running.pid,
        },
        f"{service.name} is {'' if installed else 'not '}installed.\nThe gateway {state}{where}.",
    )


@service_group.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl+C.")
@click.pass_context
@local_command
def service_logs(app: App, ctx: click.Context, follow: bool) -> None:
    """Show what the gateway has logged; `clew logs` has more options.

    \b
    Examples:
      clew service logs --follow
    """
    _get_service(app)
    ctx.invoke(logs_command, follow=follow)


def _act(app: App, verb: str, of_launchd: str, told: str) -> None:
    service = _get_service(app)
    if sys.platform == "darwin":  # pragma: no cover  # written for, not tested here
        _call("launchctl", of_launchd, str(service.file))
    else:
        _call("systemctl", "--user", verb, service.file.name)
    app.answer({"name": service.name}, told)


def find_service(app: App) -> Service:
    """The service of this home; another home has another one, so that both can run."""
    from clew.gateway.running_gateway import instance_of

    state_dir = app.config.state_dir
    name = "clew" if app.config.home is None else f"clew-{instance_of(state_dir)}"
    if sys.platform == "darwin":  # pragma: no cover  # written for, not tested here
        return Service(name, Path.home() / "Library" / "LaunchAgents" / f"{name}.plist")
    if sys.platform == "linux":
        import platformdirs

        units = platformdirs.user_config_path("systemd", appauthor=False) / "user"
        return Service(name, units / f"{name}.service")
    raise ClewError(
        "`clew service` knows systemd and launchd. Here, let your system's own service manager run "
        "`clew serve`."
    )


def _get_service(app: App) -> Service:
    service = find_service(app)
    if not service.file.exists():
        raise ClewError("The service is not installed. `clew service install` does that.")
    return service


def _options(app: App) -> Sequence[str]:
    """The global options that lead to the same files."""
    config = app.config
    source = config.sources["store.url"]
    if source not in ("default", str(config.file)):
        # Everybody on the machine could read it there, with its password.
        raise ClewError(
            f"The address of the store comes from {source}, which a service does not see. Put it "
            "into the configuration: clew config set store.url …"
        )
    home = [] if config.home is None else ["--home", str(config.home)]
    is_usual = config.file == config.config_dir / "config.toml"
    return home if is_usual else [*home, "--config", str(config.file)]


def _describe(service: Service, command: Sequence[str], environment: Path) -> str:
    if sys.platform == "darwin":  # pragma: no cover  # written for, not tested here
        arguments = "\n".join(f"    <string>{escape(each)}</string>" for each in command)
        return PLIST.format(name=escape(service.name), arguments=arguments)
    # A path that is all of a line is not quoted.
    path = str(environment).replace("%", "%%")
    return UNIT.format(command=" ".join(map(_quote, command)), environment=path)


def _quote(text: str) -> str:
    """A word as systemd reads it: in quotes, with its own signs doubled or escaped."""
    if any(ord(sign) < ord(" ") for sign in text):
        raise ClewError(f"A path with a control character can't be in a service: {text!r}")
    for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(sign, written)
    return f'"{text}"'


def _offer_lingering(app: App, wanted: bool | None) -> None:
    if wanted is None:
        wanted = app.is_terminal and click.confirm(
            "Without lingering the gateway ends when you log out. Let it run on?", default=True
        )
    if wanted:
        _call("loginctl", "enable-linger")
    else:
        app.note("It ends when you log out. `loginctl enable-linger` lets it run on.")


def _call(program: str, *arguments: str) -> None:
    found = shutil.which(program)
    if found is None:
        raise ClewError(f"{program} is not here, so no service can be set up. Run `clew serve`.")
    done = subprocess.run(  # noqa: S603  # the system's own program, by its whole path
        [found, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no reason was given"]
        advice = NO_SESSION if "connect to bus" in words[-1].lower() else ""
        raise ClewError(f"`{program} {' '.join(arguments)}` failed: {words[-1][:300]}{advice}")


LOOK_S: Final = 0.3


@click.command("logs")
@click.option(
    "-n", "count", type=click.IntRange(0), default=50, show_default=True, help="How many."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl+C.")
@click.option("--session", metavar="ID", help="Only of this session: its id, or the beginning.")
@click.option(
    "--level",
    type=click.Choice(("info", "warning", "error")),
    default="info",
    help="Only from this level on.",
)
@local_command
def logs_command(app: App, count: int, follow: bool, session: str | None, level: str) -> None:
    """Show what the gateway has logged: turns, deliveries, channels, sign-ins.

    A line never has the text of a message, nor a secret. With --json each line is an object.

    \b
    Examples:
      clew logs
      clew logs --follow --level warning
      clew logs --session 3f2a -n 200
    """
    app.wait(_show(app, count, session, level, follow=follow))


async def _show(app: App, count: int, session: str | None, level: str, *, follow: bool) -> None:
    from clew.gateway.log_file import LogReader, read_log

    def fits(event: GatewayEvent) -> bool:
        levels = ("info", "warning", "error")
        return levels.index(event.level) >= levels.index(level) and (
            session is None or (event.session or "").startswith(session)
        )

    reader = LogReader(app.config.state_dir)
    shown = deque((each for each in read_log(app.config.state_dir) if fits(each)), maxlen=count)
    for event in shown:
        _print(app, event)
    if not shown and not follow:
        app.note("Nothing is logged. `clew serve` runs a gateway, which logs what it does.")
    while follow:
        for event in reader.read():
            if fits(event):
                _print(app, event)
        sys.stdout.flush()
        await asyncio.sleep(LOOK_S)


def _print(app: App, event: GatewayEvent) -> None:
    if app.json:
        app.emit(event)
        return
    facts = [
        f"session {event.session[:8]}" if event.session else None,
        event.channel,
        f"{event.ms / 1000:.1f} s" if event.ms is not None else None,
        f"{event.input_tokens + event.output_tokens:,} tokens" if event.output_tokens else None,
        f"{event.count} times" if event.count > 1 else None,
    ]
    more = ", ".join(each for each in facts if each)
    mark = {"info": " ", "warning": "!", "error": "✗"}[event.level]
    app.say(f"{app.local_time(event.at)} {mark} {event.text}{f' ({more})' if more else ''}")
