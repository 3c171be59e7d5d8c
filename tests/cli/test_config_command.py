from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from clew.config import KEYS
from tests.cli.conftest import Home

TRASH = "session.trash_days"


def editor(script: str, tmp_path: Path) -> dict[str, str]:
    """An editor that does something to the file it is given."""
    program = tmp_path / "editor.py"
    program.write_text(
        f"import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n{script}\n", encoding="utf-8"
    )
    return {"VISUAL": f"{shlex.quote(sys.executable)} {shlex.quote(str(program))}"}


def test_show_prints_each_value_and_where_it_came_from(home: Home) -> None:
    home.clew("config", "set", TRASH, "7")
    shown = home.clew("config", "show", env={"CLEW_STORE_DURABILITY": "normal"}).stdout
    lines = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert set(lines) == {"KEY", *KEYS}
    assert lines[TRASH] == ["7", str(home.path / "config.toml")]
    assert lines["store.durability"] == ["normal", "CLEW_STORE_DURABILITY"]
    assert home.json("config", "show")[TRASH]["value"] == 7


def test_flags_win_and_say_so(home: Home) -> None:
    result = home.clew("--store", "/x.db", "config", "show", "--json")
    assert '"store.url":{"value":"/x.db","source":"--store"}' in result.stdout


def test_set_says_what_is_true_now(home: Home) -> None:
    result = home.clew("config", "set", TRASH, "7")
    assert result.stdout == f"{TRASH} is 7 now, in {home.path}/config.toml.\n"
    assert result.stderr == ""


def test_set_says_when_something_else_wins(home: Home) -> None:
    result = home.clew("config", "set", TRASH, "7", env={"CLEW_SESSION_TRASH_DAYS": "3"})
    assert result.exit_code == 0
    assert "But CLEW_SESSION_TRASH_DAYS still says 3" in result.stderr


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("session.trash_dys", "7"), (TRASH, "soon"), ("", ""), ("store.url", "\udcff"),
        # What the reader, or the command that needs it, would refuse later.
        ("tools.deny", "shell(rm *)"), ("tools.allow", '["shell:git log", "shell:a; b"]'),
        ("store.url", "mysql://me@there/db"), ("store.url", "sqlite://relative.db"),
        ("webhooks.ci.secret", "short"), ("webhooks.ci.session", "a/b"),
        ("webhooks.ci.deliver_to", "nowhere"), ("hooks.turn_end", "'never closed"),
        ("gateway.workspace", "relative/path"), ("gateway.workspaces", "~/a, b"),
    ],
)  # fmt: skip
def test_set_refuses_what_does_not_fit_and_writes_nothing(home: Home, key: str, value: str) -> None:
    result = home.clew("config", "set", key, value)
    assert result.exit_code == 2
    assert "bug" not in result.stderr
    assert not (home.path / "config.toml").exists()


def test_a_number_below_zero_is_a_value_and_no_option(home: Home) -> None:
    assert home.clew("config", "set", TRASH, "-1").exit_code == 0
    assert home.json("config", "show")[TRASH]["value"] == -1


def test_a_secret_is_set_and_not_shown(home: Home) -> None:
    result = home.clew("config", "set", "providers.box.api_key", "sk-secret")
    assert result.stdout == (
        f"providers.box.api_key is (hidden) now, in {home.path}/config.toml.\n"
    )
    shown = home.clew("config", "show")
    assert "providers.box.api_key" in shown.stdout
    assert "sk-secret" not in shown.stdout + home.clew("config", "show", "--json").stdout


def test_lists_and_tables_are_shown_as_they_are_typed(home: Home) -> None:
    result = home.clew("config", "set", "tools.allow", "read_file, shell:ls -l")
    assert 'tools.allow is ["read_file","shell:ls -l"] now' in result.stdout
    assert home.json("config", "show")["tools.allow"]["value"] == ["read_file", "shell:ls -l"]
    assert home.clew("config", "unset", "tools.allow").stdout.startswith("tools.allow is [] now")


def test_a_named_section_goes_with_its_last_value(home: Home) -> None:
    home.clew("config", "set", "providers.box.base_url", "http://localhost:1/v1")
    home.clew("config", "set", "mcp.files.env.TOKEN", "env:X")
    assert home.clew("config", "unset", "providers.box.base_url").exit_code == 0
    assert home.clew("config", "unset", "mcp.files.env.TOKEN").exit_code == 0
    assert (home.path / "config.toml").read_text(encoding="utf-8").strip() == ""


def test_unset_brings_the_default_back(home: Home) -> None:
    home.clew("config", "set", TRASH, "7")
    result = home.clew("config", "unset", TRASH)
    assert (result.exit_code, result.stdout) == (0, f"{TRASH} is 30 now, from default.\n")
    assert home.json("config", "unset", TRASH)["value"] == 30
    assert home.json("config", "show")[TRASH] == {"value": 30, "source": "default"}


def test_unset_refuses_a_key_that_is_none(home: Home) -> None:
    result = home.clew("config", "unset", "session.trash_dys")
    assert result.exit_code == 2
    assert TRASH in result.stderr


def test_a_broken_file_stops_other_commands_but_not_its_repair(home: Home) -> None:
    home.path.mkdir()
    (home.path / "config.toml").write_text('[session]\ntrash_days = "soon"\n', encoding="utf-8")
    result = home.clew("list")
    assert result.exit_code == 2
    assert f"{TRASH} must be a whole number" in result.stderr
    assert home.clew("config", "path").exit_code == 0
    assert home.clew("config", "set", TRASH, "7").exit_code == 0
    assert home.clew("list").exit_code == 0


def test_path_is_the_file_and_nothing_else(home: Home) -> None:
    assert home.clew("config", "path").stdout == f"{home.path}/config.toml\n"
    other = home.clew("--config", "/etc/other.toml", "config", "path").stdout
    assert other == "/etc/other.toml\n"


def test_edit_starts_from_a_template_and_saves_what_is_valid(home: Home, tmp_path: Path) -> None:
    script = "file.write_text(file.read_text().replace('# trash_days = 30', 'trash_days = 7'))"
    result = home.clew("config", "edit", env=editor(script, tmp_path))
    assert result.exit_code == 0, result.output
    assert home.json("config", "show")[TRASH]["value"] == 7


def test_edit_saves_nothing_that_is_not_valid(home: Home, tmp_path: Path) -> None:
    home.clew("config", "set", TRASH, "7")
    before = (home.path / "config.toml").read_bytes()
    env = editor("file.write_text('[session]\\ntrash_dys = 1\\n')", tmp_path)
    result = home.clew("config", "edit", env=env)
    assert result.exit_code == 2
    assert 'Did you mean "session.trash_days"?' in result.stderr
    assert (home.path / "config.toml").read_bytes() == before


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("terminal.theem", 'Did you mean "terminal.theme"?'),
        ("model.name", 'Did you mean "model"?'),
        ("api_key", 'Did you mean "providers.NAME.api_key"?'),
        ("store.path", "Known are store.url"),
        ("foo", "Known are model, personality"),
        ("usage", "Known are model, personality"),
    ],
)
def test_a_hint_names_a_key_only_if_it_is_similar(home: Home, key: str, advice: str) -> None:
    assert advice in home.clew("config", "set", key, "1").stderr


def test_edit_without_a_change_says_so(home: Home, tmp_path: Path) -> None:
    result = home.clew("config", "edit", env=editor("", tmp_path))
    assert result.stdout == "Nothing was changed.\n"
    assert not (home.path / "config.toml").exists()


def test_an_editor_that_fails_is_reported(home: Home, tmp_path: Path) -> None:
    result = home.clew("config", "edit", env=editor("sys.exit(3)", tmp_path))
    assert result.exit_code == 1
    assert "bug" not in result.stderr


def test_a_rule_that_is_none_is_named_with_its_source(home: Home) -> None:
    home.path.mkdir()
    (home.path / "config.toml").write_text('[tools]\ndeny = ["shell(rm *)"]\n', encoding="utf-8")
    listed = home.clew("list")
    assert listed.exit_code == 2
    assert "tools.deny" in listed.stderr
    assert '"shell(rm *)" is not a rule' in listed.stderr
    assert str(home.path / "config.toml") in listed.stderr
    assert home.clew("config", "unset", "tools.deny").exit_code == 0
    assert home.clew("list").exit_code == 0
