"""A command line in a real terminal: a pseudo-terminal, and what stands on its screen."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
import pyte

from tests.cli.conftest import Home
from tests.forks import Forked, start_clew
from tests.patience import PATIENCE

# What pyte does not know: keyboard protocols, questions about modes, the shape of the pointer
# (which it would take for a title).
UNKNOWN = re.compile(
    r"\x1b\[[<>=?][0-9;]*[ucpq]|\x1b\[\?[0-9;]+\$p|\x1b\]22;[^\x07\x1b]*(?:\x07|\x1b\\)"
)


AGAIN: Final = "Ctrl+C again, or Ctrl+D, leaves."


class Terminal:
    """A command line that runs in a terminal of some size.

    `program` is another one than clew, or clew in an interpreter that has loaded nothing yet.
    """

    def __init__(
        self,
        home: Home,
        *args: str,
        width: int = 80,
        program: str | None = None,
        cwd: Path | None = None,
        **env: str,
    ) -> None:
        self._master, slave = pty.openpty()
        self.name = os.ttyname(slave)
        self._width = width
        termios.tcsetwinsize(slave, (24, width))
        environ = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        environ |= {"CLEW_HOME": str(home.path), "TERM": "xterm"} | env
        self.process: subprocess.Popen[bytes] | Forked
        if program is None:
            streams = (slave, slave, slave)
            self.process = start_clew(args, env=environ, cwd=cwd, streams=streams, terminal=True)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, *args],
                env=environ,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # noqa: PLW1509  # its terminal
            )
        os.close(slave)
        self.output = ""
        """All that came, colours too."""
        self._seen = 0

    def wait_for(self, text: str) -> str:
        """Read until the text has been shown, behind what was waited for before; returns both."""
        limit = time.monotonic() + PATIENCE
        while self.text.find(text, self._seen) < 0 and self._read(limit):
            pass
        found = self.text.find(text, self._seen)
        assert found >= 0, f"{text!r} did not come after {self.text[self._seen :]!r}"
        start, self._seen = self._seen, found + len(text)
        return self.text[start : self._seen]

    @property
    def text(self) -> str:
        """The same without its colours."""
        return click.unstyle(self.output)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def say(self, line: str) -> str:
        """Type a line and wait for the next prompt; returns all in between."""
        self.type(f"{line}\n")
        return self.wait_for_prompt()

    def wait_for_prompt(self) -> str:
        """Read until it is the person's turn, and nothing stands behind the prompt."""
        limit = time.monotonic() + PATIENCE
        while not self._is_prompted() and self._read(limit):
            pass
        assert self._is_prompted(), self.text[self._seen :]
        start, self._seen = self._seen, len(self.text)
        return self.text[start:]

    def _is_prompted(self) -> bool:
        return self.text[max(0, self._seen - 1) :].endswith("\n> ")

    def finish(self) -> int:
        """Read to the end; the exit code."""
        limit = time.monotonic() + PATIENCE
        while self._read(limit):
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE)

    def leave(self) -> int:
        """Ctrl+D, and read to the end."""
        self.type("\x04")
        return self.finish()

    def leave_by_ctrl_c(self) -> int:
        """Ctrl+C twice within two seconds; again where the machine was too busy for that."""
        said = self.text.count(AGAIN)
        limit = time.monotonic() + PATIENCE
        self.type("\x03")
        while self._read(limit):
            if self.text.count(AGAIN) > said:
                said += 1
                self.type("\x03")
        os.close(self._master)
        return self.process.wait(PATIENCE)

    @property
    def screen(self) -> list[str]:
        """The lines on a screen that is long enough for all of them."""
        screen = pyte.Screen(self._width, 500)
        pyte.Stream(screen).feed(self.output.replace("\n", "\r\n"))
        return [line.rstrip() for line in "\n".join(screen.display).rstrip().split("\n")]

    def _read(self, limit: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0, limit - time.monotonic()))
        if not ready:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"Nothing came in time, after {self.output!r}")
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the other side is gone
            return False
        self.output += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


class FullScreen(Terminal):
    """What stands on the terminal's one screen now."""

    def __init__(self, home: Home, *args: str, **more: Any) -> None:
        super().__init__(home, *args, **more)
        self.emulated = pyte.Screen(self._width, 24)
        self._stream = pyte.Stream(self.emulated)
        self._fed = 0

    @property
    def shown(self) -> str:
        """The screen's lines."""
        new, self._fed = self.output[self._fed :], len(self.output)
        self._stream.feed(UNKNOWN.sub("", new).replace("\n", "\r\n"))
        return "\n".join(line.rstrip() for line in self.emulated.display)

    def sees(self, *texts: str) -> str:
        """Read until all of these stand on the screen."""
        return self._until(lambda shown: all(text in shown for text in texts), *texts)

    def misses(self, text: str) -> str:
        """Read until this stands on the screen no longer."""
        return self._until(lambda shown: text not in shown, f"no {text}")

    def _until(self, is_so: Callable[[str], bool], *texts: str) -> str:
        limit = time.monotonic() + PATIENCE
        while not is_so(self.shown):
            ready, _, _ = select.select([self._master], [], [], max(0, limit - time.monotonic()))
            if not ready or not self._read(limit):
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"{texts} did not come:\n{self.shown}")
        return self.shown
