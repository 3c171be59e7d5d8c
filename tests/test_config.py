from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from clew import config
from clew.errors import InvalidConfig


def write(home: Path, text: str) -> Path:
    file = home / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_without_anything_every_value_is_the_default(tmp_path: Path) -> None:
    loaded = config.load(home=str(tmp_path), environ={})
    assert loaded.store.url == f"sqlite://{tmp_path}/sessions.db"
    assert loaded.session == config.SessionConfig()
    assert set(loaded.sources.values()) == {"default"}


def test_file_then_environment_then_flags_and_each_is_remembered(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '[session]\nretention_days = 1\ntrash_days = 1\n[store]\nurl = "sqlite:///a/b.db"\n',
    )
    environ = {"CLEW_SESSION_TRASH_DAYS": "2", "CLEW_STORE": "sqlite:///c/d.db"}
    loaded = config.load(home=str(tmp_path), store="sqlite:///e/f.db", environ=environ)
    assert (loaded.session.retention_days, loaded.sources["session.retention_days"]) == (
        1,
        str(file),
    )
    assert (loaded.session.trash_days, loaded.sources["session.trash_days"]) == (
        2,
        "CLEW_SESSION_TRASH_DAYS",
    )
    assert (loaded.store.url, loaded.sources["store.url"]) == ("sqlite:///e/f.db", "--store")


def test_the_short_variable_of_the_store_wins_over_the_regular_one(tmp_path: Path) -> None:
    environ = {"CLEW_STORE": "/short.db", "CLEW_STORE_URL": "/regular.db"}
    loaded = config.load(environ=environ | {"CLEW_HOME": str(tmp_path)})
    assert loaded.store.url == "/short.db"


def test_a_home_given_as_a_flag_brings_its_own_store(tmp_path: Path) -> None:
    environ = {"CLEW_STORE": "/elsewhere.db", "CLEW_HOME": str(tmp_path)}
    assert config.load(environ=environ).store.url == "/elsewhere.db"
    assert config.load(home=str(tmp_path), environ=environ).store.url.endswith("/sessions.db")


def test_empty_and_foreign_variables_are_passed_over(tmp_path: Path) -> None:
    environ = {"CLEW_SESSION_TRASH_DAYS": "", "CLEW_SESSION_KEY": "x", "CLEW_WHATEVER": "y"}
    loaded = config.load(home=str(tmp_path), environ=environ)
    assert set(loaded.sources.values()) == {"default"}


@pytest.mark.parametrize(
    ("text", "found", "nearest"),
    [
        ("[session]\nretention_dys = 5", "session.retention_dys", "session.retention_days"),
        ("[sesion]\ntrash_days = 5", "sesion.trash_days", "session.trash_days"),
        ("retention_days = 5", "retention_days", "session.retention_days"),
        ('[store]\ndurable = "full"', "store.durable", "store.durability"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_the_nearest(
    tmp_path: Path, text: str, found: str, nearest: str
) -> None:
    write(tmp_path, text)
    with pytest.raises(InvalidConfig, match=re.escape(f'Unknown key "{found}"')) as caught:
        config.load(home=str(tmp_path), environ={})
    assert f'"{nearest}"' in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[session]\nretention_days = "ninety"', "session.retention_days must be a whole number"),
        ("[session]\nretention_days = true", "not True"),
        ("[session]\nretention_days = 1.5", "not 1.5"),
        ("[session]\nretention_days = 99999999999999999999", "not 99999999999999999999"),
        ('[session]\nretention_action = "burn"', '"archive" or "delete", not \'burn\''),
        ('[store]\ndurability = "none"', '"full" or "normal"'),
        ('[store]\nurl = " "', "store.url must be a URL"),
        ('[session]\ntimezone = "Europe/Atlantis"', "session.timezone must be a time zone"),
        ('[session]\ntimezone = "../etc/passwd"', "session.timezone must be a time zone"),
        ("session = 5", 'Unknown key "session"'),
        ("[session", "is not valid TOML"),
    ],
)
def test_a_value_that_does_not_fit_says_what_was_found_and_expected(
    tmp_path: Path, text: str, says: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InvalidConfig, match=re.escape(says)) as caught:
        config.load(home=str(tmp_path), environ={})
    assert str(file) in str(caught.value)


def test_a_variable_that_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"not 'soon' \(CLEW_SESSION_TRASH_DAYS\)"):
        config.load(home=str(tmp_path), environ={"CLEW_SESSION_TRASH_DAYS": "soon"})


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidConfig, match="not UTF-8"):
        config.load(home=str(tmp_path), environ={})


def test_a_directory_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(InvalidConfig, match="can't be read"):
        config.load(home=str(tmp_path), environ={})


def test_a_file_that_was_asked_for_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="There is no config file"):
        config.load(home=str(tmp_path), file=str(tmp_path / "other.toml"), environ={})


def test_a_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert config.locate(home="here", environ={}).data_dir == tmp_path / "here"
    assert config.locate(environ={"CLEW_HOME": "~/x"}).data_dir == tmp_path / "me" / "x"


@pytest.mark.parametrize("path", ["~nobody-of-that-name/x", "\udcff"])
def test_a_home_that_can_not_be_is_an_error(path: str) -> None:
    with pytest.raises(InvalidConfig, match="can't be used as a path"):
        config.locate(home=path, environ={})


def test_without_a_home_the_platform_says_where_things_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    places = config.locate(environ={})
    assert places.home is None
    assert places.data_dir == tmp_path / "data" / "clew"
    assert places.file == tmp_path / "config" / "clew" / "config.toml"


def test_a_path_with_odd_characters_comes_through_the_url(tmp_path: Path) -> None:
    from clew.store import sqlite_path

    home = tmp_path / "100% of 何か?#"
    loaded = config.load(home=str(home), environ={})
    assert sqlite_path(loaded.store.url) == home / "sessions.db"


def test_setting_a_value_keeps_comments_and_order(tmp_path: Path) -> None:
    file = write(tmp_path, "# mine\n[session]  # why\ntrash_days = 1  # short\n\n[store]\n")
    config.set_value(file, "session.trash_days", "7")
    config.set_value(file, "store.durability", "normal")
    assert file.read_text(encoding="utf-8") == (
        "# mine\n[session]  # why\ntrash_days = 7  # short\n\n"
        '[store]\ndurability = "normal"\n'
    )  # fmt: skip


def test_setting_a_value_makes_the_file_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config.toml"
    config.set_value(file, "session.trash_days", "7")
    assert config.load(home=str(file.parent), environ={}).session.trash_days == 7
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["config.toml"]


def test_setting_a_value_writes_through_a_link_and_keeps_the_mode(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text("", encoding="utf-8")
    real.chmod(0o644)
    link = tmp_path / "config.toml"
    link.symlink_to(real)
    config.set_value(link, "session.trash_days", "7")
    assert link.is_symlink()
    assert "trash_days = 7" in real.read_text(encoding="utf-8")
    assert stat.S_IMODE(real.stat().st_mode) == 0o644


def test_setting_a_value_may_mend_what_is_broken(tmp_path: Path) -> None:
    file = write(tmp_path, '[session]\ntrash_days = "soon"\n')
    config.set_value(file, "session.trash_days", "7")
    assert config.load(home=str(tmp_path), environ={}).session.trash_days == 7


@pytest.mark.parametrize(
    ("before", "key", "value"),
    [
        ("# mine\n", "session.trash_dys", "7"),
        ("# mine\n", "session.trash_days", "soon"),
        ("[sesion]\nx = 1\n", "session.trash_days", "7"),
        ("[session\n", "session.trash_days", "7"),
        ("session = 5\n", "session.trash_days", "7"),
    ],
)
def test_an_error_in_setting_leaves_the_file_alone(
    tmp_path: Path, before: str, key: str, value: str
) -> None:
    file = write(tmp_path, before)
    with pytest.raises(InvalidConfig):
        config.set_value(file, key, value)
    assert file.read_text(encoding="utf-8") == before
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


def test_the_template_changes_nothing_and_each_of_its_lines_is_valid(tmp_path: Path) -> None:
    text = config.template()
    assert list(config.settings_in(text, tmp_path)) == []
    bare = re.sub(r"^# (?=\w+ =)", "", text, flags=re.MULTILINE)
    assert {setting.key for setting in config.settings_in(bare, tmp_path)} == set(config.KEYS)


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_is_what_the_environment_lets(environ: dict[str, str], wanted: bool) -> None:
    assert config.wants_colour(environ) is wanted
