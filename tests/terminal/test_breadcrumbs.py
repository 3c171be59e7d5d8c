from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.resume import Breadcrumb
from clew.terminal.breadcrumbs import (
    PREFIXES,
    read_breadcrumb,
    terminal_id,
    write_breadcrumb,
)
from tests.patience import PATIENCE

CRUMB = Breadcrumb("/srv/api", "550e8400-e29b-41d4-a716-446655440000", False, 5)


@pytest.mark.parametrize(
    ("tty", "variables", "name"),
    [
        ("/dev/pts/3", {}, "pts-3"),
        ("/dev/ttys001", {}, "ttys001"),
        ("/dev/tty1", {"TMUX_PANE": "%3"}, "tty1"),
        (None, {"TMUX_PANE": "%3"}, "tmux-%3"),
        (None, {"KITTY_WINDOW_ID": "7", "TMUX_PANE": "%3"}, "kitty-7"),
        (None, {"TERM_SESSION_ID": "w0t0p0-AB"}, "term-w0t0p0-AB"),
        (None, {"WT_SESSION": "9f3c"}, "wt-9f3c"),
        (None, {"ZELLIJ": "0"}, "zellij-0"),
        (None, {"WEZTERM_PANE": "2"}, "wezterm-2"),
        (None, {"TMUX_PANE": ""}, None),
        (None, {"SHELL": "/bin/sh"}, None),
        ("", {}, None),
    ],
)
def test_what_a_terminal_is_called(
    tty: str | None, variables: dict[str, str], name: str | None
) -> None:
    assert terminal_id(tty, variables) == name


@given(st.sampled_from(list(PREFIXES)), st.text(min_size=1), st.text(min_size=1))
def test_any_variable_gives_a_file_name_of_its_own(variable: str, one: str, other: str) -> None:
    names = [terminal_id(None, {variable: value}) for value in (one, other)]
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert name is not None
        assert name.isascii()
        assert len(name) < 120
        assert not set(name) & set("/\\\0")


@pytest.mark.parametrize(
    "crumb", [CRUMB, Breadcrumb("/srv/\udcff\n", None, True, 6)], ids=["usual", "fresh and odd"]
)
def test_a_breadcrumb_is_read_back(tmp_path: Path, crumb: Breadcrumb) -> None:
    write_breadcrumb(tmp_path / "state", "pts-3", crumb)
    assert read_breadcrumb(tmp_path / "state", "pts-3") == crumb
    assert read_breadcrumb(tmp_path / "state", "pts-4") is None


def test_a_breadcrumb_is_private_and_replaced_whole(tmp_path: Path) -> None:
    write_breadcrumb(tmp_path, "pts-3", CRUMB)
    write_breadcrumb(tmp_path, "pts-3", Breadcrumb("/srv/web", None, True))
    assert [each.name for each in (tmp_path / "terminals").iterdir()] == ["pts-3"]
    assert stat.S_IMODE((tmp_path / "terminals" / "pts-3").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "terminals").stat().st_mode) == 0o700


def test_a_terminal_without_a_name_has_no_breadcrumb(tmp_path: Path) -> None:
    write_breadcrumb(tmp_path, None, CRUMB)
    assert list(tmp_path.iterdir()) == []
    assert read_breadcrumb(tmp_path, None) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"cwd": 5}', b"\xff", b"[" * 90_000])
def test_what_is_no_breadcrumb_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "terminals").mkdir()
    (tmp_path / "terminals" / "pts-3").write_bytes(content)
    assert read_breadcrumb(tmp_path, "pts-3") is None


def test_failures_are_silent(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    write_breadcrumb(blocked, "pts-3", CRUMB)
    assert read_breadcrumb(blocked, "pts-3") is None
    (tmp_path / "terminals" / "pts-3" / "inside").mkdir(parents=True)
    write_breadcrumb(tmp_path, "pts-3", CRUMB)
    assert read_breadcrumb(tmp_path, "pts-3") is None
    write_breadcrumb(tmp_path / "a\0b", "pts-3", CRUMB)
    assert read_breadcrumb(tmp_path / "a\0b", "pts-3") is None
    os.mkfifo(tmp_path / "terminals" / "pts-4")
    assert read_breadcrumb(tmp_path, "pts-4") is None


FIND = "from clew.terminal.breadcrumbs import find_terminal; print(find_terminal({'ZELLIJ': '0'}))"


def run_find(stdin: int) -> str:
    command = [sys.executable, "-c", FIND]
    return subprocess.run(
        command, stdin=stdin, capture_output=True, text=True, timeout=PATIENCE, check=True
    ).stdout.strip()


def test_the_terminal_of_stdin_comes_first() -> None:
    controller, terminal = os.openpty()
    try:
        name = os.ttyname(terminal)
        assert run_find(terminal) == name.removeprefix("/dev/").replace("/", "-")
    finally:
        os.close(controller)
        os.close(terminal)


def test_without_a_terminal_on_stdin_the_variables_tell() -> None:
    assert run_find(subprocess.DEVNULL) == "zellij-0"
