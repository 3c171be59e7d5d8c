"""The table of slash commands: its columns, who may use what, and what is read as a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core import commands
from clew.core.commands import (
    ALIASES,
    COMMANDS,
    STOP_WORDS,
    Command,
    Issuer,
    Surface,
    describe_help,
    find_command,
    list_commands,
    may_command,
    may_use,
    needs_change,
    parse,
    read_order,
)
from clew.core.tokens import Scope, covers
from clew.errors import InvalidInput

ROW = {
    "name": '"dance"', "aliases": "()", "usage": '""', "help": '"Dance."', "scope": '"chat"',
    "who": '"owner"', "surfaces": '("terminal",)', "runs_in": '"runtime"',
    "needs_session": "True", "is_slow": "False", "changes": '"nothing"',
}  # fmt: skip
GUEST_MAY = {"new", "reset", "resume", "stop", "status", "help"}


def read(line: str) -> tuple[str, str] | None:
    return parse(line, is_path=os.path.exists)


# --- the table --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_is_for_and_what_may_follow_it(name: str) -> None:
    command = COMMANDS[name]
    assert command.help.endswith(".")
    assert len(command.help) <= 60
    if command.usage:
        assert command.usage == command.usage.strip()
    assert read(f"/{name}") == (name, "")


@pytest.mark.parametrize("alias", ALIASES)
def test_every_other_name_is_a_command(alias: str) -> None:
    assert alias not in COMMANDS
    assert find_command(alias) is COMMANDS[ALIASES[alias]]


def test_a_row_without_a_column_does_not_type_check(tmp_path: Path) -> None:
    assert set(ROW) == set(Command.__struct_fields__)
    source = ["from clew.core.commands import Command"]
    for missing in (None, *ROW):
        columns = ", ".join(f"{name}={value}" for name, value in ROW.items() if name != missing)
        source.append(f"Command({columns})")
    (tmp_path / "rows.py").write_text("\n".join(source), "utf-8")
    src = Path(commands.__file__).parents[2]
    # The public names of clew would have the whole of it looked at.
    ini = f"[mypy]\nstrict = true\nmypy_path = {src}\n[mypy-clew]\nfollow_imports = skip\n"
    (tmp_path / "mypy.ini").write_text(ini, "utf-8")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=mypy.ini", "rows.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    *wrong, _ = checked.stdout.splitlines()
    assert [line.split('"')[1] for line in wrong] == [*ROW], checked.stdout
    assert [line.split(":")[1] for line in wrong] == [str(3 + place) for place in range(len(ROW))]


# --- who may use one --------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*COMMANDS, *ALIASES])
@pytest.mark.parametrize("is_direct", [True, False])
def test_the_owner_may_all_a_stranger_nothing_and_a_guest_a_little_at_home(
    name: str, is_direct: bool
) -> None:
    assert may_command("owner", name, is_direct=is_direct)
    assert not may_command("stranger", name, is_direct=is_direct)
    assert may_command("guest", name, is_direct=is_direct) is (is_direct and name in GUEST_MAY)


@pytest.mark.parametrize("surface", get_args(Surface))
def test_a_command_in_no_row_is_allowed_to_nobody(surface: Surface) -> None:
    assert not may_command("owner", "dance", is_direct=True)
    assert not may_use(Issuer(role="owner", surface=surface), "dance")


@pytest.mark.parametrize("scope", get_args(Scope))
def test_a_token_has_the_commands_that_its_scope_covers(scope: Scope) -> None:
    listed = list_commands(Issuer(role="owner", surface="api", scopes=(scope,)))
    assert all(covers((scope,), each.scope) and "api" in each.surfaces for each in listed)
    hidden = [each for each in COMMANDS.values() if each not in listed]
    assert all(not covers((scope,), each.scope) or "api" not in each.surfaces for each in hidden)


def test_the_scopes_of_commands_are_those_of_their_operations() -> None:
    needing: dict[str, set[str]] = {}
    for name, each in COMMANDS.items():
        needing.setdefault(each.scope, set()).add(name)
    assert needing == {
        "read": {
            "context", "exit", "export", "help", "memory", "scratchpad", "search", "status",
            "todos", "usage",
        },
        "chat": {"new", "resume", "retry", "stop"},
        "write": {
            "compact", "fork", "link", "mode", "model", "personality", "pin", "queue", "redo",
            "send", "thinking", "tier", "title", "uncompact", "undo", "verbose",
        },
        "approve": {"approve", "deny"},
        "admin": {"pair", "setup"},
    }  # fmt: skip


def test_a_command_that_needs_only_read_changes_nothing() -> None:
    reading = [each for each in COMMANDS.values() if each.scope == "read"]
    assert {each.changes for each in reading} == {"nothing"}


def test_what_goes_elsewhere_is_done_by_a_terminal_itself() -> None:
    here = {name for name, each in COMMANDS.items() if each.runs_in == "client"}
    assert here == {"new", "resume", "fork", "export", "exit", "help", "setup"}


def test_a_setting_is_shown_read_only_and_not_changed() -> None:
    assert not needs_change(COMMANDS["title"], "")
    assert needs_change(COMMANDS["title"], "Mine")
    assert needs_change(COMMANDS["undo"], "")
    assert not needs_change(COMMANDS["fork"], "Mine")


# --- help -------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", get_args(Surface))
@pytest.mark.parametrize("role", ["owner", "guest"])
def test_help_shows_what_this_surface_and_this_person_have(surface: Surface, role: str) -> None:
    issuer = Issuer(role="owner" if role == "owner" else "guest", surface=surface)
    told = describe_help(issuer)
    for name, command in COMMANDS.items():
        shown = any(line.startswith(f"{command.line} ") for line in told.splitlines())
        assert shown is (surface in command.surfaces and (role == "owner" or name in GUEST_MAY))
    assert ("Ctrl+C" in told) is (surface == "terminal")
    assert ("/quit is /exit" in told) is (surface == "terminal" and role == "owner")


def test_help_of_what_a_person_has_not_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no command /export"):
        describe_help(Issuer(role="owner", surface="channel"), "export")
    with pytest.raises(InvalidInput, match="no command /undo"):
        describe_help(Issuer(role="guest", surface="channel"), "undo")


# --- the line ---------------------------------------------------------------------------------


@given(st.text())
def test_any_text_is_a_message_or_a_command(line: str) -> None:
    parsed = read(line)
    if parsed is None:
        return
    name, rest = parsed
    assert line.startswith("/")
    assert "/" not in name
    assert name == name.lower()
    assert rest == rest.strip()


@given(st.sampled_from(sorted([*COMMANDS, *ALIASES])), st.text())
def test_a_command_gets_what_follows_it(name: str, rest: str) -> None:
    assert read(f"/{name} {rest}") == (name, rest.strip())
    assert read(f"/{name.upper()}\n{rest}") == (name, rest.strip())


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "",
        "/",
        "//",
        "/etc",
        "/tmp",
        "/tmp is full",
        "/etc/hosts",
        "/etc/hosts is wrong",
        "/home/me/a.py: fix it",
        "/usr/",
        " /help",
        "what does /help do?",
        "/2",
        "/a.txt",
        "/new!",
    ],
)
def test_paths_and_everything_else_are_messages(line: str) -> None:
    assert read(line) is None


def test_a_command_stays_one_even_if_there_is_such_a_directory() -> None:
    assert read("/help") == ("help", "")
    assert read("/nothing-of-this-name") == ("nothing-of-this-name", "")


@given(st.lists(st.from_regex(r"[a-z0-9._ -]{1,8}", fullmatch=True), min_size=2, max_size=4))
def test_any_path_is_a_message(names: list[str]) -> None:
    parsed = read("/" + "/".join(names))
    # Only a blank makes it a command: what comes before that is then a name without a slash.
    assert parsed is None or " " in names[0]


# --- lines on a channel -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mention", "line"),
    [
        ("/status", None, "/status"),
        ("  /send off \n", None, "/send off"),
        ("@clew /status", "clew", "/status"),
        ("<@9> /status", "9", "/status"),
        ("@clew, stop", "clew", "/stop"),
        ("/status@clew now", "@Clew", "/status now"),
        ("/status@other", "clew", None),
        ("/status@clew", None, None),
        ("say /status", None, None),
        ("stop!", None, None),
        ("stop it", None, None),
        ("", None, None),
        *((word.upper(), None, "/stop") for word in STOP_WORDS),
    ],
)
def test_a_command_is_the_whole_message(text: str, mention: str | None, line: str | None) -> None:
    assert read_order(text, mention) == line


@given(st.text(), st.none() | st.text())
def test_whatever_is_said_an_order_is_a_line_with_a_slash_or_none(
    text: str, mention: str | None
) -> None:
    line = read_order(text, mention)
    assert line is None or line.startswith("/")
    if not text.strip():
        assert line is None
