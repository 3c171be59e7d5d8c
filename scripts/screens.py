"""A full screen of clew in a pseudo-terminal, read as a person would: what stands where, in colour.

It starts, types and looks. What is on the screen is the business of whoever waits for it; how it is
drawn as a picture is in `picture`.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte
from rich.color import Color
from rich.style import Style
from rich.text import Text

from clew.terminal.screen import styles

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 100, 30
PATIENCE = 30.0
GROUND = str(styles.DARK.background).lstrip("#")
QUIET = 0.6
"""Seconds without news after which a screen is done."""

# Sequences that pyte would print: keyboard protocols, questions about modes, the pointer's shape.
UNKNOWN = re.compile(
    r"\x1b\[[<>=?][0-9;]*[ucpq]|\x1b\[\?[0-9;]+\$p|\x1b\]22;[^\x07\x1b]*(\x07|\x1b\\)"
)


def environment(home: Path, **more: str) -> dict[str, str]:
    """What clew knows of the world: nothing of this machine."""
    return {
        "CLEW_HOME": str(home),
        "COLORTERM": "truecolor",
        "HOME": "/home/ada",  # whose sessions the pictures tell of
        "LANG": "C.UTF-8",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "TERM": "xterm-256color",
        "TZ": "UTC",
    } | more


def start(
    arguments: list[str], home: Path, cwd: Path, rows: int = 40
) -> tuple[subprocess.Popen[bytes], int]:
    """clew in a terminal of its own, and the descriptor of the terminal's other side."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
    process = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, "-m", "clew", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(home),
        cwd=cwd,
        start_new_session=True,
    )
    os.close(theirs)
    return process, ours


class Screen:
    """clew on a whole screen. Leaving the block ends it, wherever it is."""

    def __init__(self, arguments: list[str], home: Path, cwd: Path) -> None:
        self._process, self._descriptor = start(arguments, home, cwd, ROWS)
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self._screen)
        self._rest = b""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._descriptor)

    @property
    def text(self) -> str:
        """What can be read."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._descriptor, keys.encode())

    def wait_for(self, *texts: str) -> None:
        """Read until all of these stand on the screen."""
        limit = time.monotonic() + PATIENCE
        while not all(text in self.text for text in texts):
            if not self.read(limit - time.monotonic()):
                raise SystemExit(f"{texts} did not come:\n{self.text}")

    def settle(self) -> None:
        """Read until nothing comes any more."""
        while self.read(QUIET):
            pass

    def read(self, seconds: float) -> bool:
        """Take in what comes next; whether something came in time."""
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            data = self._rest + os.read(self._descriptor, 65_536)
        except OSError:  # how Linux says that nobody writes there any more
            return False
        whole = _find_end(data)
        self._rest = data[whole:]
        self._stream.feed(UNKNOWN.sub("", data[:whole].decode(errors="replace")))
        return True

    def lines(self) -> list[Text]:
        """The screen line by line, with its styles."""
        return [self._line(y) for y in range(ROWS)]

    def _line(self, y: int) -> Text:
        text = Text(no_wrap=True, end="")
        cells = [self._screen.buffer[y][x] for x in range(COLUMNS)]
        for style, run in itertools.groupby(cells, key=_style):
            # Nothing stands behind a wide character.
            text.append("".join(cell.data for cell in run), style)
        return text


def _find_end(data: bytes) -> int:
    """Where the last whole sequence ends; the rest has to wait for more."""
    start = data.rfind(b"\x1b")
    if start >= 0 and not re.match(
        rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*\x07|[^\[\]])", data[start:]
    ):
        return start
    end = len(data)
    for back in range(1, min(4, len(data)) + 1):  # a character may be cut in two
        byte = data[-back]
        if byte & 0xC0 != 0x80:
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return end - back if length > back else end
    return end


def _style(cell: pyte.screens.Char) -> Style:
    front, back = _colour(cell.fg), _colour(cell.bg)
    if cell.reverse:
        front, back = back or f"#{GROUND}", front or styles.DARK.foreground
    if back == f"#{GROUND}":  # it is there anyway
        back = None
    return Style(
        color=front and Color.parse(front),
        bgcolor=back and Color.parse(back),
        bold=cell.bold or None,
        italic=cell.italics or None,
        underline=cell.underscore or None,
        strike=cell.strikethrough or None,
    )


def _colour(name: str) -> str | None:
    """A colour of pyte's, as Rich calls it; None for the terminal's own."""
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    return name.replace("brown", "yellow")
