"""What a model, a tool, a title, a file's name or an error says never reaches the terminal raw."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from clew.core.message import Draft
from clew.terminal.screen.approvals import SETTLES
from tests.cli.conftest import Home
from tests.cli.screens import FullScreen, Terminal

CORPUS = {
    "clear": "\x1b[2J\x1b[3J\x1b[1;1H",
    "colour": "\x1b[38;5;199m",
    "screen": "\x1b[?47h",
    "mouse": "\x1b[?9h",
    "scroll": "\x1b[5;10r\x1b[7S",
    "write": "\x1b[21t\x1b[6n\x1b[c",
    "title": "\x1b]0;PWNED\x07",
    "icon": "\x1b]2;PWNED\x1b\\",
    "clipboard": "\x1b]52;c;UFdORUQ=\x07",
    "link": "\x1b]8;;file:///etc/passwd\x1b\\",
    "iterm": "\x1b]1337;File=inline=1:UFdORUQ=\x07",
    "notice": "\x1b]777;notify;PWNED;PWNED\x07",
    "dcs": "\x1bP+q544e\x1b\\",
    "sixel": "\x1bPq#0;2;0;0;0#0!9~\x1b\\",
    "apc": "\x1b_Ga=T;UFdORUQ=\x1b\\",
    "pm": "\x1b^PWNED\x1b\\",
    "sos": "\x1bXPWNED\x1b\\",
    "reset": "\x1bc",
    "align": "\x1b#8",
    "charset": "\x1b(0\x0e",
    "c1 csi": "\x9b2J\x9b38;5;199m",
    "c1 osc": "\x9d0;PWNED\x9c",
    "c1 dcs": "\x90q\x9c",
    "c1 rest": "\x84\x85\x8d\x98\x9e\x9f",
    "controls": "\x00\x05\x07\x08\x0b\x0c\x0f\x11\x13\x18\x1a\x7f",
    "bidi": "\u202e\u202d\u202a\u202b\u202c\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    "zero width": "\u200b\u2060\ufeff\u00ad\u180e",
    "tags": "\U000e0001\U000e0041\U000e007f",
    "lines": "\u2028\u2029",
    "cut": "\x1b[38;5",
    "open": "\x1b]0;PWNED",
}
SPOKEN = "\n\n".join(f"A{number} {each} B" for number, each in enumerate(CORPUS.values()))
SHOUTED = "".join(CORPUS.values()).replace("\n", "")
NAMED = SHOUTED.replace("\x00", "").replace("/", "-")
"""A name as a file system takes it."""

TOKEN = re.compile(
    r"""
      \x1b\[ [0-?]* [ -/]* [@-~]
    | \x1b [\]P_^X] .*? (?: \x07 | \x1b\\ )
    | \x1b [ -/]* [0-~]
    | [\0-\x09\x0b-\x1f\x7f-\x9f]
    | [\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]
    | [\U000e0000-\U000e007f]
    """,
    re.VERBOSE | re.DOTALL,
)
"""Everything that a terminal may obey, or nobody sees."""

OURS = re.compile(
    r"""
      \x1b\[ (?!38;5;199) [0-9;]* m             # styles, but that of the corpus
    | \x1b\[ [0-9;]* H                          # where to write
    | \x1b\[ \? (?: 7|25|1000|1002|1003|1004|1006|1015|1016|1049|2004|2026|2031|2048 ) [hl]
    | \x1b\[ [<>=] [0-9;]* u                    # the keyboard
    | \x1b\[ \? [0-9]+ (?: \$p | u ) | \x1b\[c  # what it can do
    | \x1b\[ > [0-9]* q
    | \x1b\] 22 ; [a-z-]* (?: \x07 | \x1b\\ )   # the pointer's shape
    | [\r\n\b]
    """,
    re.VERBOSE,
)
"""What Textual, and clew's own colours, are made of."""


def foreign(output: str) -> list[str]:
    """What is in the output that nobody but the corpus can have put there."""
    output = re.sub(r"\x1b(?:[\[\]][0-9;?]*)?\Z", "", output)  # the rest of it comes later
    return [
        f"{token[0]!r} in {output[max(0, token.start() - 40) : token.end() + 20]!r}"
        for token in TOKEN.finditer(output)
        if not OURS.fullmatch(token[0])
    ]


def check(screen: FullScreen) -> None:
    """Nothing of the corpus came, and the terminal is as it was."""
    assert foreign(screen.output) == []
    assert screen.emulated.title == screen.emulated.icon_name == ""
    assert not TOKEN.search(screen.shown.replace("\n", ""))


def leave(screen: FullScreen) -> None:
    screen.type("\x03\x03")  # together: they must come within two seconds
    assert screen.finish() == 0
    assert screen.output.rfind("\x1b[?25h") > screen.output.rfind("\x1b[?25l")  # the cursor is back
    assert foreign(screen.output) == []
    assert "Traceback" not in screen.text


def open_screen(home: Home, work: Path, *args: str) -> FullScreen:
    screen = FullScreen(home, *args, cwd=work, COLORTERM="truecolor")
    screen.sees("Write a message")
    return screen


def test_the_scan_finds_each_of_them() -> None:
    """A check that could not fail would be worth nothing."""
    harmless = "\x1b[?1049h\x1b[1;1H\x1b[0mplain\x1b]22;default\x1b\\"
    assert foreign(harmless) == foreign(f"{harmless}\x1b[38;") == []
    assert [name for name, each in CORPUS.items() if not foreign(f"{harmless}{each}z")] == []


@pytest.mark.parametrize("size", [1, 7, 4000])  # whole, and cut anywhere
def test_what_a_model_says_and_thinks(home: Home, work: Path, size: int) -> None:
    home.script({"text": f"{SPOKEN}\n\nthe end", "thinking": SPOKEN, "chunk": size}, title=SHOUTED)
    screen = open_screen(home, work)
    screen.type("go\r")
    screen.sees("the end")
    screen.type("\x0f")  # Ctrl+O unfolds
    screen.sees("the end")
    check(screen)
    assert "PWNED" not in screen.output  # nothing is left of a whole sequence
    leave(screen)


def test_what_a_tool_is_called_with_and_gives(home: Home, work: Path) -> None:
    (work / "letter.txt").write_text(SPOKEN.replace("\u2028", ""), encoding="utf-8")
    calls = [
        {"name": "read_file", "arguments": {"path": "letter.txt"}},
        {"name": f"tool{SHOUTED}", "arguments": {f"a{SHOUTED}": SHOUTED}},
        {"name": "read_file", "arguments": {"path": f"none{NAMED[:60]}"}},
        {"name": "write_file", "arguments": {"path": f"new{NAMED[:60]}", "content": SPOKEN}},
        {"name": "shell", "arguments": {"command": f"printf '%s' 'x{NAMED}'"}},
    ]
    home.script({"tool_calls": calls}, {"text": "the end"})
    screen = open_screen(home, work)
    screen.type("\x0f")  # Ctrl+O unfolds
    screen.type("go\r")
    screen.sees("Yes, once")
    time.sleep(SETTLES)  # a key that comes at once is not for the question
    screen.type("\t")
    screen.sees("━━━")
    screen.type("\r")
    screen.sees("the end")
    check(screen)
    leave(screen)


def test_titles_files_directories_and_errors(home: Home, work: Path) -> None:
    refused = {"error": {"status": 400, "body": {"message": f"no{SHOUTED}"}}}
    home.script(refused)
    place = work / shorten(f"dir{NAMED}")
    place.mkdir()
    (place / shorten(f"file{NAMED}")).touch()
    here = {"cwd": str(place), "project": str(place)}
    one = home.add(f"Evil{SHOUTED}"[:200], f"said{SHOUTED}", key=f"cli:x{SHOUTED}", **here)
    screen = open_screen(home, place, "-r", one.id)
    screen.sees("Evil", "said")
    screen.type("@file")
    screen.sees("file", "@file")
    screen.type("\t")
    screen.type("\r")
    screen.sees("/retry")
    screen.type("/status\r")
    screen.sees("Evil", "cli:x")
    check(screen)
    screen.type("\x12")  # Ctrl+R
    screen.sees("Sessions of this directory", "Evil", "resume")
    screen.type("said")
    screen.sees("in messages")
    check(screen)
    screen.type("\x1b")
    screen.sees("Write a message")
    leave(screen)


def shorten(name: str) -> str:
    """As long as a file's name may be."""
    return name.encode()[:200].decode(errors="ignore")


def test_what_is_pasted(home: Home, work: Path) -> None:
    home.script({"text": "You said: ", "echo": "user"})
    screen = open_screen(home, work)
    pasted = SPOKEN.replace("\n", " ")
    screen.type(f"\x1b[200~{pasted}\x1b[201~")
    screen.sees("A30")
    screen.type("\r")
    screen.sees("You said:")
    assert foreign(screen.output) == []
    leave(screen)


def test_line_mode(home: Home, work: Path) -> None:
    calls = [
        {"name": f"tool{SHOUTED}", "arguments": {f"a{SHOUTED}": SHOUTED}},
        {"name": "write_file", "arguments": {"path": f"new{NAMED[:60]}", "content": SPOKEN}},
    ]
    home.script(
        {"text": SPOKEN, "thinking": SPOKEN, "chunk": 3},
        rules=[
            {"when": "tools", "answers": [{"tool_calls": calls}, {"text": "the end"}]},
            {
                "when": "wrong",
                "answers": [{"error": {"status": 400, "body": {"message": SHOUTED}}}],
            },
        ],
        title=SHOUTED,
    )
    here = {"cwd": str(work), "project": str(work)}
    one = home.add(
        f"Evil{SHOUTED}"[:200], f"said{SHOUTED}", Draft(role="assistant", content=SPOKEN), **here
    )
    chat = Terminal(home, "--plain", "-r", one.id, cwd=work)
    chat.wait_for_prompt()
    chat.say("/verbose on")
    chat.say("go")
    chat.type("tools\n")
    chat.wait_for("y (yes, once)")
    chat.type("y\n")
    chat.wait_for("the end")
    chat.wait_for_prompt()
    chat.say("wrong")
    chat.say("/status")
    assert chat.leave() == 0
    assert foreign(chat.output) == []
    assert "Traceback" not in chat.text
