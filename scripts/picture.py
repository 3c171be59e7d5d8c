"""Draws the pictures of the docs from what the real commands print in a real terminal.

    python scripts/picture.py [NAME...]

A demo home with a fixed seed is made in a temporary directory; each command runs in a
pseudo-terminal of 100 columns. In the chat a script answers, and its tools are real. Nothing here
knows what a command prints.
"""

from __future__ import annotations

import fcntl
import html
import io
import itertools
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "pictures"
COLUMNS = 100
SEED = 54

PICTURES = {
    "chat": ("clew",),
    "list": ("clew list -n 10", "clew search certificate server -n 2", "clew search 証明書 -n 1"),
    "show": ("clew show 'Restart the firewall' -n 4",),
    "doctor": ("clew doctor",),
}

CHAT = (
    "Why does the login page send people in circles?",
    "Fix it.",
    "y",
)
"""What is typed into the chat, line by line."""

SCRIPT = {
    "title": "Login redirect loop",
    "rules": [
        {
            "when": "circles",
            "answers": [
                {"tool_calls": [{"name": "read_file", "arguments": {"path": "login.py"}}]},
                {
                    "text": "`login()` sends everybody back to `next`, and without one `next` is "
                    "the login page itself. A person who is already signed in then goes round and "
                    "round.",
                    "usage": {"input": 2140, "output": 58},
                },
            ],
        },
        {
            "when": "Fix",
            "answers": [
                {
                    "tool_calls": [
                        {
                            "name": "edit_file",
                            "arguments": {
                                "path": "login.py",
                                "old": "next or '/login'",
                                "new": "next or '/'",
                            },
                        }
                    ]
                },
                {"text": "Done: without `next` people now land on the front page."},
            ],
        },
    ],
}
PROJECT = {"login.py": "def login(user, next=None):\n    return redirect(next or '/login')\n"}

THEME = TerminalTheme(
    (22, 25, 30),
    (214, 219, 226),
    [
        (60, 66, 76), (232, 104, 106), (135, 192, 110), (224, 184, 96),
        (104, 160, 230), (190, 130, 216), (88, 184, 196), (200, 206, 214),
    ],
    [
        (110, 118, 130), (240, 128, 130), (158, 212, 134), (240, 204, 124),
        (134, 182, 244), (208, 156, 232), (116, 204, 214), (240, 243, 247),
    ],
)  # fmt: skip

# Rich's own template fetches a font from elsewhere; this one takes what the reader has.
TEMPLATE = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono",
  "Noto Sans Mono CJK JP", monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font: 600 17px system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

TEXT = re.compile(
    r'<text class="(?P<class>[^"]+)" x="(?P<x>[\d.]+)" y="(?P<y>[\d.]+)" '
    r'textLength="(?P<length>[\d.]+)"(?P<rest>[^>]*)>(?P<text>[^<]+)</text>'
)


def main(names: list[str]) -> int:
    """Draw the pictures that were named, or all."""
    unknown = [name for name in names if name not in PICTURES]
    if unknown:
        print(f"No picture {', '.join(unknown)}; there are {', '.join(PICTURES)}.", file=sys.stderr)
        return 2
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clew-picture-") as scratch:
        home = Path(scratch) / "home"
        run_in_terminal(f"clew demo --home {home} --seed {SEED}", Path(scratch) / "unused")
        for name in names or PICTURES:
            if name == "chat":
                screens = [("clew", talk(Path(scratch)))]
            else:
                screens = [(command, run_in_terminal(command, home)) for command in PICTURES[name]]
            path = TARGET / f"{name}.svg"
            path.write_text(draw(name, screens), encoding="utf-8")
            print(f"drew {path.relative_to(ROOT)}")
    return 0


def run_in_terminal(command: str, home: Path) -> str:
    """What a command prints on a terminal, escape sequences included."""
    process, ours = _start(shlex.split(command)[1:], home, Path.cwd())
    printed = _read_all(ours)
    if process.wait() != 0:
        raise SystemExit(f"{command} ended with {process.returncode}:\n{printed}")
    return printed


def talk(scratch: Path) -> str:
    """A chat about a small project, in a home of its own."""
    home, project = scratch / "talk", scratch / "shop"
    for directory in (home, project):
        directory.mkdir()
    for name, text in PROJECT.items():
        (project / name).write_text(text, encoding="utf-8")
    script = home / "script.json"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    (home / "config.toml").write_text(
        f'''model = "script/scripted"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
context_window = 200000
''',
        encoding="utf-8",
    )
    process, ours = _start(["--no-resume-hint"], home, project)
    printed = ""
    for line in CHAT:
        while not re.search(r"(> |: )(\x1b\[0m)?\Z", printed):
            printed += os.read(ours, 65_536).decode().replace("\r\n", "\n")
        os.write(ours, f"{line}\n".encode())
        printed += _read_line(ours)
    while not re.search(r"> (\x1b\[0m)?\Z", printed):
        printed += os.read(ours, 65_536).decode().replace("\r\n", "\n")
    os.write(ours, b"\x04")
    _read_all(ours)
    process.wait()
    return printed.replace(str(scratch), "/home/ada")


def _read_line(descriptor: int) -> str:
    """What the terminal echoes of a line that was typed."""
    echo = ""
    while not echo.endswith("\n"):
        echo += os.read(descriptor, 1).decode(errors="replace").replace("\r", "")
    return echo


def _start(arguments: list[str], home: Path, cwd: Path) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    environment = {
        "CLEW_HOME": str(home),
        "HOME": "/home/ada",  # whose sessions the demo tells of
        "LANG": "C.UTF-8",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "TERM": "xterm-256color",
        "TZ": "UTC",
    }
    process = subprocess.Popen(  # noqa: S603  # the commands above
        [sys.executable, "-m", "clew", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=cwd,
    )
    os.close(theirs)
    return process, ours


def _read_all(descriptor: int) -> str:
    """Everything until the other side of the terminal is closed."""
    chunks = []
    while True:
        try:
            chunk = os.read(descriptor, 65_536)
        except OSError:  # how Linux says that nobody writes there any more
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(descriptor)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def draw(name: str, screens: list[tuple[str, str]]) -> str:
    """The screens below each other, each under the line that was typed, as an SVG."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True,
        color_system="truecolor", legacy_windows=False,
    )  # fmt: skip
    for index, (command, printed) in enumerate(screens):
        if index:
            console.print()
        console.print(Text.assemble(("$ ", "bright_black"), (command, "bold")))
        console.print(Text.from_ansi(printed.rstrip("\n")), soft_wrap=True)
    console.print()
    svg = console.export_svg(
        title="clew", theme=THEME, code_format=TEMPLATE, unique_id=f"clew-{name}"
    )
    return TEXT.sub(_place, svg)


def _place(element: re.Match[str]) -> str:
    """One text element for each run of equally wide characters.

    Rich takes every character for one column, so that wide ones are squeezed and shift the rest.
    """
    x, length = float(element["x"]), float(element["length"])
    text = html.unescape(element["text"])
    column = length / len(text)
    parts = []
    for width, run in itertools.groupby(text, key=cell_len):
        characters = "".join(run)
        room = column * width * len(characters)
        shown = html.escape(characters).replace(" ", "&#160;").replace("\xa0", "&#160;")
        parts.append(
            f'<text class="{element["class"]}" x="{x:g}" y="{element["y"]}" '
            f'textLength="{room:g}"{element["rest"]}>{shown}</text>'
        )
        x += room
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
