"""What each terminal was last used for, in small files of the state directory.

Best effort: a terminal that can't be told from others has none, and whatever fails, fails silently.
The environment comes as an argument; what a breadcrumb leads to is decided by `seats.locate`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from clew.clock import host_clock
from clew.core.resume import Breadcrumb
from clew.core.text import from_json, to_json
from clew.errors import ClewError

PREFIXES: Final = {
    "KITTY_WINDOW_ID": "kitty",
    "TMUX_PANE": "tmux",
    "TERM_SESSION_ID": "term",
    "WT_SESSION": "wt",
    "ZELLIJ": "zellij",
    "WEZTERM_PANE": "wezterm",
}
"""Variables that tell one terminal from another, the first that is set counts."""

LARGEST: Final = 65_536
LONGEST: Final = 100
_ODD: Final = re.compile(r"[^A-Za-z0-9%._@+-]")


def find_terminal(variables: Mapping[str, str]) -> str | None:
    """The id of the terminal that stdin is, None if it can't be told from others."""
    try:
        tty = os.ttyname(0)
    except OSError:
        tty = None
    return terminal_id(tty, variables)


def terminal_id(tty_name: str | None, variables: Mapping[str, str]) -> str | None:
    """What a terminal is called: by its device (`pts-3`), else by a variable (`tmux-%3`)."""
    if tty_name:
        return _safe(tty_name.removeprefix("/dev/").strip("/").replace("/", "-"))
    for variable, prefix in PREFIXES.items():
        value = variables.get(variable)
        if value:
            return _safe(f"{prefix}-{value}")
    return None


def _safe(name: str) -> str | None:
    """The name as that of a file; a digest keeps those apart that would look alike."""
    clean = _ODD.sub("_", name)[:LONGEST]
    if clean != name:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        clean = f"{clean}-{digest[:8]}"
    return None if not clean.strip(".") else clean


def find_crumbs(state_dir: Path, gateway: str | None) -> Path:
    """Where the breadcrumbs are of chats at a gateway that was named; None for all others."""
    if gateway is None:
        return state_dir
    name = hashlib.sha256(gateway.rstrip("/").encode()).hexdigest()[:16]
    return state_dir / "gateways" / name


def read_breadcrumb(state_dir: Path, terminal: str | None) -> Breadcrumb | None:
    """What this terminal was last used for, if that is known."""
    if terminal is None:
        return None
    path = _file(state_dir, terminal)
    with suppress(OSError, ValueError, ClewError, msgspec.MsgspecError, RecursionError):
        if path.is_file():
            with path.open("rb") as stream:
                return from_json(stream.read(LARGEST).decode(), Breadcrumb)
    return None


def write_breadcrumb(state_dir: Path, terminal: str | None, breadcrumb: Breadcrumb) -> None:
    """Remember what this terminal is used for, for its owner's eyes only; whole or not at all."""
    if terminal is None:
        return
    path = _file(state_dir, terminal)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError, ValueError, ClewError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            draft.unlink(missing_ok=True)  # left by a dead process with our number
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(to_json(breadcrumb).encode())
            draft.replace(path)
        finally:
            with suppress(OSError):
                draft.unlink()


def leave_breadcrumb(
    state_dir: Path, terminal: str | None, cwd: str, session_id: str | None, fresh: bool
) -> None:
    """Remember that this terminal is now at a session, or that `/new` was its last act."""
    write_breadcrumb(state_dir, terminal, Breadcrumb(cwd, session_id, fresh, host_clock()))


def _file(state_dir: Path, terminal: str) -> Path:
    return state_dir / "terminals" / terminal
