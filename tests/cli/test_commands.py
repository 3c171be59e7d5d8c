"""Every command: its help, and what it does with nonsense."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import click
import pytest

from clew.cli import COMMANDS, main
from tests.cli.conftest import Home

NONSENSE = [
    "",
    " ",
    "nope",
    "\x1b[31mred",
    "'; DROP TABLE sessions",
    "g" * 5000,
    "\udcff",
    "💥",
    "*",
]


def walk(context: click.Context) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    command = context.command
    names = tuple(context.command_path.split()[1:])
    if not isinstance(command, click.Group):
        yield names, command
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from walk(click.Context(child, info_name=name, parent=context))


def every_command() -> list[tuple[tuple[str, ...], click.Command]]:
    return list(walk(click.Context(main, info_name="clew")))


PATHS = [names for names, _ in every_command()]
TAKING_IDS = [
    names
    for names, command in every_command()
    if any(parameter.name in ("typed", "typed_ids") for parameter in command.params)
]
each_command = pytest.mark.parametrize("path", PATHS, ids=" ".join)


def test_the_overview_has_a_line_for_each_command_and_imports_none(home: Home) -> None:
    result = home.clew("--help")
    assert result.exit_code == 0
    for entries in COMMANDS.values():
        for name, entry in entries.items():
            assert re.search(rf"^  {name} +{re.escape(entry.help)}$", result.stdout, re.MULTILINE)


@each_command
def test_each_command_has_a_help_with_an_example(home: Home, path: tuple[str, ...]) -> None:
    result = home.clew(*path, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"clew {' '.join(path)}" in result.stdout


@each_command
def test_each_command_refuses_an_unknown_option(home: Home, path: tuple[str, ...]) -> None:
    result = home.clew(*path, "--nonsense")
    assert result.exit_code == 2
    assert "nonsense" in result.stderr
    assert not home.path.exists()


@pytest.mark.parametrize("typed", NONSENSE)
@pytest.mark.parametrize("path", TAKING_IDS, ids=" ".join)
def test_ids_that_fit_nothing_are_not_found(home: Home, path: tuple[str, ...], typed: str) -> None:
    words = ["A title"] if path == ("rename",) else []
    before = {"search": ["word", "--session"], "link": ["telegram:42"]}
    option = before.get(path[0], [])
    result = home.clew(*path, *option, typed, *words)
    assert result.exit_code == 1, result.output
    assert "not found" in result.stderr
    assert "\x1b" not in result.stderr
    assert "bug" not in result.stderr


@pytest.mark.parametrize("name", ["lst", "serach", "sesions"])
def test_an_unknown_command_names_the_nearest(home: Home, name: str) -> None:
    result = home.clew(name)
    assert result.exit_code == 2
    assert "Did you mean" in result.stderr


@pytest.mark.parametrize("words", [(), ("search",), ("trash",), ("trash", "empty")])
def test_help_is_a_command_too(home: Home, words: tuple[str, ...]) -> None:
    result = home.clew("help", *words)
    assert result.exit_code == 0
    assert result.stdout == home.clew(*words, "--help").stdout
    assert not home.path.exists()


@pytest.mark.parametrize("words", [("serach",), ("trash", "emtpy"), ("list", "me")])
def test_help_for_what_is_not_there_is_wrong_usage(home: Home, words: tuple[str, ...]) -> None:
    result = home.clew("help", *words)
    assert result.exit_code == 2
    assert "Did you mean" in result.stderr or "no commands below" in result.stderr


@pytest.mark.parametrize(
    "group", ["config", "trash", "model", "memory", "personality", "explain", "pair"]
)
def test_no_line_of_a_groups_help_is_cut(home: Home, group: str) -> None:
    assert "..." not in home.clew(group, "--help").stdout.partition("Commands:")[2]


def test_a_group_alone_says_what_is_below_it_once(home: Home) -> None:
    result = home.clew("pair")
    assert result.exit_code == 2
    assert result.stderr.count("Usage:") == 1
    assert result.stderr.startswith("Usage: clew pair ")


def test_wrong_usage_begins_like_every_other_error(home: Home) -> None:
    lines = home.clew("list", "--nonsense").stderr.splitlines()
    assert lines[0].startswith("Usage: clew list ")
    assert lines[-1].startswith("clew: No such option")


@pytest.mark.parametrize(
    "path", [each for each in PATHS if each not in {("model", "pull"), ("serve",)}], ids=" ".join
)
def test_each_command_ends_with_a_code_that_is_documented(
    home: Home, path: tuple[str, ...], tmp_path: Path
) -> None:
    home.script("Hello.")
    with chdir(tmp_path):
        result = home.clew(*path, env={"EDITOR": "true", "VISUAL": "true", "SHELL": "/bin/bash"})
    assert result.exit_code in (0, 1, 2), result.output
    assert "bug" not in result.stderr
    assert "Traceback" not in result.output


def test_options_of_the_chat_belong_behind_its_command(home: Home) -> None:
    result = home.clew("--fork", "list")
    assert result.exit_code == 2
    assert "clew list --help" in result.stderr
    assert not home.path.exists()


def test_the_version_is_one_line(home: Home) -> None:
    result = home.clew("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"clew \d+\.\d+\.\d+\n", result.stdout)
