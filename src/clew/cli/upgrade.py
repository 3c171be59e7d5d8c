"""`clew upgrade`: what to do to get a newer clew. It says so, and changes and contacts nothing."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from clew.cli.app import App, local_command
from clew.version import __version__

BEFORE: Final = (
    "clew gateway drain",
    "Ends the gateway when its turns are done; messages that come meanwhile wait.",
)


class Installation(NamedTuple):
    """How this clew was installed, and what installs a newer one; no command for a checkout."""

    how: str
    commands: tuple[str, ...]


@click.command("upgrade")
@click.option("--check", is_flag=True, help="Only say what to do. It never does more.")
@local_command
def upgrade_command(app: App, check: bool) -> None:
    """Say how to get a newer clew, for the way in which this one was installed.

    Your sessions stay where they are. If the newer clew has another schema, its first command
    updates the store, says what it does, and keeps the copy from before.

    \b
    Examples:
      clew upgrade --check
      clew upgrade --check --json
    """
    from clew.cli.service import find_service
    from clew.gateway.running_gateway import find_running

    found = find_installation(Path(sys.prefix))
    is_running = find_running(app.config.state_dir) is not None
    steps = [*([BEFORE[0]] if is_running else []), *found.commands, "clew doctor"]
    if is_running:
        has_service = sys.platform in ("linux", "darwin") and find_service(app).file.is_file()
        steps.append("clew service start" if has_service else "clew serve")
    lines = [
        f"This is clew {__version__}, installed {found.how}. Nothing was changed.",
        "",
        *(f"  {each}" for each in steps),
        "",
    ]
    if is_running:
        lines.append(f"A gateway runs. `{BEFORE[0]}`: {BEFORE[1]}")
    lines += [
        "If the newer clew has another schema, its first command updates the store: it says so,",
        "needs about as much disk again, and keeps the copy from before beside the store.",
    ]
    app.answer(
        {
            "version": __version__, "installed": found.how, "steps": steps,
            "gateway_running": is_running, "checked_only": check,
        },
        "\n".join(lines),
    )  # fmt: skip


def find_installation(prefix: Path) -> Installation:
    """How the clew of this environment was installed, by what installers leave behind."""
    source = _find_checkout()
    if source is not None:
        return Installation(f"from a checkout, {source}", (f"git -C {source} pull", "make"))
    if (prefix / "pipx_metadata.json").is_file():
        return Installation("by pipx", ("pipx upgrade clew",))
    if (prefix / "uv-receipt.toml").is_file():
        return Installation("as a tool of uv", ("uv tool upgrade clew",))
    python = prefix / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if _read("INSTALLER").strip() == "uv":
        return Installation(
            f"by uv into {prefix}", (f"uv pip install --python {python} --upgrade clew",)
        )
    return Installation(f"by pip into {prefix}", (f"{python} -m pip install --upgrade clew",))


def _find_checkout() -> str | None:
    """The directory that is installed as editable, if this clew is."""
    try:
        told = msgspec.json.decode(_read("direct_url.json") or "{}", type=dict[str, object])
    except msgspec.MsgspecError:
        return None
    url, about = told.get("url"), told.get("dir_info")
    is_editable = isinstance(about, dict) and about.get("editable") is True
    return str(url).removeprefix("file://") if is_editable else None


def _read(name: str) -> str:
    try:
        return distribution("clew").read_text(name) or ""
    except PackageNotFoundError:
        return ""
