"""Draws the pictures of the docs from what the real commands print in a real terminal.

    python scripts/picture.py [NAME...]

A demo home with a fixed seed is made in a temporary directory; each command runs in a
pseudo-terminal of 100 columns. What a full screen shows is played in `scenes`. Nothing here knows
what a command prints.
"""

from __future__ import annotations

import html
import io
import itertools
import os
import re
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # as a script, it is found nowhere

from scripts.scenes import SCENES  # noqa: E402
from scripts.screens import COLUMNS, Screen, start  # noqa: E402

TARGET = ROOT / "docs" / "pictures"
READER = "/home/ada"
"""The home of the person who reads the docs."""
SESSION = "20c768b0-3a72-4362-87e1-37f3c471d150"
"""The one session that they begin."""
SEED = 54

COMMANDS = {
    "list": ("clew list -n 10", "clew search certificate server -n 2", "clew search 証明書 -n 1"),
    "show": ("clew show 'Restart the firewall' -n 4",),
    "doctor": ("clew doctor",),
}

PICTURES = (*(name for _, names in SCENES.values() for name in names), *COMMANDS)

THEME = TerminalTheme(
    (22, 24, 28),  # that of the full screen
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

UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
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
    wanted = names or PICTURES
    TARGET.mkdir(parents=True, exist_ok=True)
    for scene, drawn in SCENES.values():
        if set(drawn) & set(wanted):
            with scratch() as place:
                for name, screen in scene(place):
                    screen.settle()
                    if name in wanted:
                        _write(name, draw_screen(name, screen, place))
    commands = {name: lines for name, lines in COMMANDS.items() if name in wanted}
    with tempfile.TemporaryDirectory(prefix="clew-picture-") as directory:
        home = Path(directory) / "home"
        if commands:
            run_in_terminal(f"clew demo --home {home} --seed {SEED}", Path(directory) / "unused")
        for name, lines in commands.items():
            _write(name, draw(name, [(line, run_in_terminal(line, home)) for line in lines]))
    return 0


def _write(name: str, picture: str) -> None:
    path = TARGET / f"{name}.svg"
    path.write_text(picture, encoding="utf-8")
    print(f"drew {path.relative_to(ROOT)}")


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory whose name is as long as `READER`: then that can stand in its place."""
    place = Path("/tmp") / secrets.token_hex(2)  # noqa: S108  # mkdir fails if somebody has it
    place.mkdir(mode=0o700)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run_in_terminal(command: str, home: Path) -> str:
    """What a command prints on a terminal, escape sequences included."""
    process, ours = start(shlex.split(command)[1:], home, Path.cwd())
    printed = _read_all(ours)
    if process.wait() != 0:
        raise SystemExit(f"{command} ended with {process.returncode}:\n{printed}")
    return printed


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
    lines = []
    for index, (command, printed) in enumerate(screens):
        lines += [Text()] if index else []
        lines.append(Text.assemble(("$ ", "bright_black"), (command, "bold")))
        lines.append(Text.from_ansi(printed.rstrip("\n")))
    return _export(name, [*lines, Text()])


def draw_screen(name: str, screen: Screen, place: Path) -> str:
    """A whole screen as an SVG; `place` is where the reader's home would be."""
    return UUID.sub(SESSION, _export(name, screen.lines()).replace(str(place), READER))


def _export(name: str, lines: list[Text]) -> str:
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True,
        color_system="truecolor", legacy_windows=False,
    )  # fmt: skip
    for line in lines:
        console.print(line, soft_wrap=True)
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
