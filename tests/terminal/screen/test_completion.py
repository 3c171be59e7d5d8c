"""What could be meant by what is being typed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.commands import ALIASES, COMMANDS
from clew.core.session import NewSession
from clew.terminal.screen.completion import (
    Choice,
    Wanted,
    complete,
    complete_command,
    find_files,
    find_wanted,
    list_arguments,
    rank_paths,
)
from tests.terminal.screen.chats import Stage, open_terminal


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def texts(choices: tuple[Choice, ...]) -> list[str]:
    return [choice.text for choice in choices]


# --- the word before the cursor -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("/", Wanted("command", 0, "")),
        ("/mo", Wanted("command", 0, "mo")),
        ("/model ", Wanted("argument", 7, "", "model")),
        ("/model scr", Wanted("argument", 7, "scr", "model")),
        ("/resume login bug", Wanted("argument", 8, "login bug", "resume")),
        ("see @src/ma", Wanted("file", 4, "src/ma")),
        ("@", Wanted("file", 0, "")),
        ("(@a", Wanted("file", 1, "a")),
        ("", None),
        ("words", None),
        ("me@example.org", None),
        ("a /mo", None),
        ("/nothing ", None),
        ("/usr/bin", None),
        ("see @src/main.py and", None),
    ],
)
def test_the_word_before_the_cursor_is_recognised(line: str, wanted: Wanted | None) -> None:
    assert find_wanted(line) == wanted


def test_a_command_stands_in_the_first_line_only() -> None:
    assert find_wanted("/mo", first=False) is None
    assert find_wanted("@a", first=False) == Wanted("file", 0, "a")


@given(st.text(max_size=60))
def test_what_is_found_ends_the_line(line: str) -> None:
    wanted = find_wanted(line)
    if wanted is not None:
        assert line.endswith(wanted.text)
        assert 0 <= wanted.start <= len(line)


# --- commands and their arguments ---------------------------------------------------------------


def test_every_command_is_offered_with_its_help() -> None:
    offered = {choice.text: choice for choice in complete_command("")}
    assert set(offered) == {f"/{name}" for name in (*COMMANDS, *ALIASES)}
    assert all(choice.help for choice in offered.values())


def test_commands_that_begin_so_come_before_those_that_contain_it() -> None:
    assert texts(complete_command("mo"))[:2] == ["/model", "/mode"]
    assert "/memory" in texts(complete_command("mo"))


async def test_arguments_come_from_what_can_be_asked(stage: Stage) -> None:
    async with open_terminal(stage) as terminal:
        seat = terminal.seat
        for command, some in {
            "model": {"script/x", "script/other"},
            "personality": {"default", "engineer"},
            "mode": {"default", "plan"},
            "thinking": {"off", "high"},
            "tier": {"none"},
            "verbose": {"on", "off"},
            "context": {"list", "detail"},
            "help": {"model", "exit"},
        }.items():
            assert some <= set(texts(await list_arguments(seat, command))), command
        problems = [bool(choice.help) for choice in await list_arguments(seat, "model")]
        assert problems == sorted(problems)  # those that can be used come first
        for command in COMMANDS:
            await complete(seat, Wanted("argument", 0, "", command))


async def test_a_session_is_offered_by_its_name_and_put_in_by_its_id(stage: Stage) -> None:
    async with open_terminal(stage) as terminal:
        seat, store = terminal.seat, terminal.store
        place = seat.place
        here = await store.create_session(
            NewSession(key="cli:a", title="Mend the login", cwd=place.cwd, project=place.project)
        )
        other = await store.create_session(
            NewSession(key="cli:b", title="Login elsewhere", cwd="/")
        )
        await store.create_session(NewSession(key="cli:c", title="Unlike"))
        choices = await complete(seat, Wanted("argument", 8, "login", "resume"))
        short = await store.shorten_ids([here.id, other.id])
        assert texts(choices) == [short[here.id], short[other.id]]
        assert [choice.shown for choice in choices] == ["Mend the login", "Login elsewhere"]


# --- files --------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src/main.py", "src/deep/er/mainly.py", "README.md", ".env", ".git/config"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_what_stands_here_is_offered_first_and_nothing_hidden(project: Path) -> None:
    assert find_files(str(project), "", 20) == ("README.md", "src/")


def test_files_are_found_below_by_their_names(project: Path) -> None:
    assert find_files(str(project), "main", 20) == ("src/main.py", "src/deep/er/mainly.py")


def test_a_directory_is_gone_through_by_its_slash(project: Path) -> None:
    assert find_files(str(project), "src/", 20) == ("src/deep/", "src/main.py")


def test_hidden_files_are_offered_to_who_types_the_dot(project: Path) -> None:
    assert find_files(str(project), ".e", 20) == (".env",)
    assert find_files(str(project), ".git/", 20) == (".git/config",)


@pytest.mark.parametrize("typed", ["/etc/", "../", "src/../../", "/"])
def test_nothing_outside_the_workspace_is_offered(project: Path, typed: str) -> None:
    assert find_files(str(project), typed, 20) == ()


def test_names_that_could_drive_a_terminal_are_left_out(project: Path) -> None:
    (project / "evil\x1b]0;x\x07.py").touch()
    (project / "evil\u202egpj.py").touch()
    (Path(os.fsdecode(os.fsencode(project) + b"/evil\xff.py"))).touch()
    assert find_files(str(project), "evil", 20) == ()


async def test_a_name_with_a_space_is_quoted(stage: Stage) -> None:
    (stage.work / "my notes.md").touch()
    async with open_terminal(stage) as terminal:
        seat = terminal.seat
        choices = await complete(seat, Wanted("file", 0, "my"))
        assert texts(choices) == ['@"my notes.md"']


def test_no_more_files_are_offered_than_asked_for(tmp_path: Path) -> None:
    for directory in range(3):
        path = tmp_path / f"many{directory}"
        path.mkdir()
        for number in range(120):
            (path / f"{number}.txt").touch()
    assert len(find_files(str(tmp_path), "txt", 50)) == 50


def test_letters_in_order_are_enough() -> None:
    paths = ["src/clew/terminal/screen/app.py", "docs/guide.md"]
    assert rank_paths(paths, "termapp") == ("src/clew/terminal/screen/app.py",)
    assert rank_paths(paths, "zzz") == ()
