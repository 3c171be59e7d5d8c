from __future__ import annotations

import re
import stat
from concurrent.futures import ThreadPoolExecutor
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
    assert (loaded.model, loaded.personality, loaded.thinking) == (None, "default", None)
    assert (loaded.providers, loaded.mcp, loaded.credentials) == ({}, {}, {})
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
        ('modl = "x"', "modl", "model"),
        ('[providers.a]\nbase_ur = "x"', "providers.a.base_ur", "providers.a.base_url"),
        ('[provider.a]\nbase_url = "x"', "provider.a.base_url", "providers.NAME.base_url"),
        ('[mcp.files]\ncomand = ["x"]', "mcp.files.comand", "mcp.files.command"),
        ('[hooks]\nturn_begin = ["x"]', "hooks.turn_begin", "hooks.turn_end"),
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
        ("providers = 5", 'Unknown key "providers"'),
        ("[providers]\na = 5", 'Unknown key "providers.a"'),
        ('[providers."a/b"]\nkind = "openai"', 'Unknown key "providers.a/b.kind"'),
        ("[model]\nx = 1", "model must be a model"),
        ('model = "two words"', "model must be a model"),
        ('thinking = "max"', '"off", "low", "medium" or "high"'),
        ("[session]\ncontext_messages = 0", "session.context_messages must be a whole number"),
        ("[tools]\nallow = [1]", "tools.allow must be a list of rules"),
        ('[tools]\nallow = "shell"', "tools.allow must be a list of rules"),
        ("[tools]\ntimeout = 0", "tools.timeout must be a whole number of seconds"),
        ('[providers.a]\nkind = "openia"', "providers.a.kind must be"),
        ('[providers.a]\nbase_url = "localhost"', "must be an http:// or https:// address"),
        ('[providers.a]\nfactory = "module"', 'must be "module:function"'),
        ("[mcp.a]\nenv = { A = 1 }", "mcp.a.env must be a table of texts, not that"),
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
    assert {each.name for each in file.parent.iterdir()} == {"config.toml", ".config.lock"}


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
    assert {each.name for each in tmp_path.iterdir()} <= {"config.toml", ".config.lock"}


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


# --- named sections, lists and secrets ----------------------------------------------------------

NAMED = """
model = "ollama/qwen3"

[providers.ollama]
base_url = "http://localhost:11434/v1"
api_key = "sk-literal"
models = ["qwen3"]

[mcp.files]
command = ["mcp-files", "."]
env = { TOKEN = "env:FILES_TOKEN", PLAIN = "word" }
"""


def test_named_sections_are_read(tmp_path: Path) -> None:
    file = write(tmp_path, NAMED)
    loaded = config.load(home=str(tmp_path), environ={})
    assert loaded.model == "ollama/qwen3"
    assert loaded.providers["ollama"].models == ("qwen3",)
    assert loaded.providers["ollama"].kind is None
    assert loaded.mcp["files"].command == ("mcp-files", ".")
    assert loaded.sources["providers.ollama.base_url"] == str(file)
    assert loaded.value("providers.ollama.models") == ["qwen3"]
    assert loaded.value("providers.other.models") is None


def test_secrets_are_never_shown_but_where_they_are_is(tmp_path: Path) -> None:
    write(tmp_path, NAMED)
    environ = {"ANTHROPIC_API_KEY": "sk-variable", "GEMINI_API_KEY": ""}
    loaded = config.load(home=str(tmp_path), environ=environ)
    assert "sk-literal" not in repr(loaded)
    assert "sk-variable" not in repr(loaded)
    assert loaded.value("providers.ollama.api_key") == "(hidden)"
    assert loaded.value("mcp.files.env") == {"TOKEN": "env:FILES_TOKEN", "PLAIN": "(hidden)"}
    assert list(loaded.credentials) == ["ANTHROPIC_API_KEY"]
    assert config.reveal(loaded.credentials["ANTHROPIC_API_KEY"], environ) == "sk-variable"


def test_a_secret_among_the_arguments_of_a_command_is_not_shown(tmp_path: Path) -> None:
    write(
        tmp_path,
        """[mcp.x]
command = ["serve", "--api-key", "Abcdefghijk1", "--token=Abcdefghijk2", "--port", "7000"]
""",
    )
    shown = config.load(home=str(tmp_path), environ={}).value("mcp.x.command")
    assert shown == ["serve", "--api-key", "(hidden)", "--token=[redacted]", "--port", "7000"]


def test_a_secret_that_does_not_fit_is_not_repeated(tmp_path: Path) -> None:
    write(tmp_path, "[providers.a]\napi_key = 12345\n")
    with pytest.raises(InvalidConfig, match=r"providers\.a\.api_key must be a key") as caught:
        config.load(home=str(tmp_path), environ={})
    assert "12345" not in str(caught.value)


def test_a_secret_is_found_where_it_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-file\n", encoding="utf-8")
    (tmp_path / "empty").touch()
    environ = {"MY_KEY": " from-variable "}
    assert config.reveal(config.Secret("itself"), {}) == "itself"
    assert config.reveal(config.Secret("sk:with:colons"), {}) == "sk:with:colons"
    assert config.reveal(config.Secret("env:MY_KEY"), environ) == "from-variable"
    assert config.reveal(config.Secret(f"file:{tmp_path}/key"), {}) == "from-file"
    for text, says in (
        ("env:NO_KEY", "NO_KEY is not set"),
        (f"file:{tmp_path}/none", "No such file"),
        (f"file:{tmp_path}/empty", "is empty"),
        ("file:key", "must begin with / or ~"),
    ):
        with pytest.raises(InvalidConfig, match=says):
            config.reveal(config.Secret(text), environ)


@pytest.mark.parametrize(
    ("key", "text", "written"),
    [
        ("model", "anthropic/claude-opus-5-5", 'model = "anthropic/claude-opus-5-5"'),
        ("tools.allow", "read_file, shell:ls -l", 'allow = ["read_file", "shell:ls -l"]'),
        ("tools.allow", '["shell:a, b"]', 'allow = ["shell:a, b"]'),
        ("tools.allow", "", "allow = []"),
        ("providers.x.base_url", "http://[::1]:1/v1", '[providers.x]\nbase_url = "http://[::1]'),
        ("providers.x.api_key", "env:X", 'api_key = "env:X"'),
        ("providers.x.context_window", "8192", "context_window = 8192"),
        ("mcp.x.command", "npx, thing", 'command = ["npx", "thing"]'),
        ("mcp.x.env.TOKEN", "env:X", '[mcp.x.env]\nTOKEN = "env:X"'),
        ("hooks.turn_end", "~/bin/notify", 'turn_end = ["~/bin/notify"]'),
    ],
)
def test_setting_works_for_every_kind_of_key(
    tmp_path: Path, key: str, text: str, written: str
) -> None:
    file = write(tmp_path, "# mine\n[session]\ntrash_days = 7\n")
    config.set_value(file, key, text)
    content = file.read_text(encoding="utf-8")
    assert written in content
    assert content.startswith("# mine\n")
    loaded = config.load(home=str(tmp_path), environ={})
    assert loaded.session.trash_days == 7
    config.unset_value(file, key)
    after = config.load(home=str(tmp_path), environ={})
    assert (after.providers, after.mcp) == ({}, {})
    assert after.value(key) in (None, [])


@pytest.mark.parametrize(
    "key", ["providers", "providers.x", "providers.x.y", "providers.a/b.kind", "mcp.x.tools.y", "."]
)
def test_setting_a_key_that_is_none_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidConfig, match="Unknown key"):
        config.set_value(tmp_path / "config.toml", key, "x")


def test_variables_set_top_level_keys_and_lists(tmp_path: Path) -> None:
    environ = {
        "CLEW_MODEL": "openai/gpt-4o",
        "CLEW_THINKING": "high",
        "CLEW_PERSONALITY": "coach",
        "CLEW_SERVICE_TIER": "flex",
        "CLEW_TOOLS_ALLOW": "a,b",
        "CLEW_SESSION_SCOPE": "git",
        "CLEW_SESSION_KEY": "work",
    }
    loaded = config.load(home=str(tmp_path), environ=environ)
    assert (loaded.model, loaded.thinking) == ("openai/gpt-4o", "high")
    assert (loaded.personality, loaded.service_tier) == ("coach", "flex")
    assert loaded.tools.allow == ("a", "b")
    assert (loaded.session.scope, loaded.session_key) == ("git", "work")
    assert loaded.sources["model"] == "CLEW_MODEL"


def test_state_and_cache_are_under_the_home_or_where_the_platform_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    places = config.locate(environ={})
    assert (places.state_dir, places.cache_dir) == (
        tmp_path / "state" / "clew",
        tmp_path / "cache" / "clew",
    )
    under = config.locate(home=str(tmp_path / "home"), environ={})
    assert (under.state_dir, under.cache_dir) == (tmp_path / "home", tmp_path / "home" / "cache")
    assert config.shared_cache_dir() == tmp_path / "cache" / "clew"


def test_terminals_are_told_apart_by_their_variables() -> None:
    environ = {"TMUX_PANE": "%3", "TERM_SESSION_ID": "", "HOME": "/home/ada", "WT_SESSION": "x"}
    assert config.terminal_variables(environ) == {"TMUX_PANE": "%3", "WT_SESSION": "x"}


def test_two_who_edit_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    keys = [f"providers.p{number}.base_url" for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: config.set_value(file, key, "http://localhost/v1"), keys))
    loaded = config.load(home=str(tmp_path), environ={})
    assert sorted(loaded.providers) == sorted(key.split(".")[1] for key in keys)


@pytest.mark.parametrize(
    ("value", "light"), [("0;15", True), ("0;default;7", True), ("15;0", False), ("", False)]
)
def test_a_terminal_says_whether_it_is_light(value: str, light: bool) -> None:
    assert config.has_light_background({"COLORFGBG": value}) == light
    assert not config.has_light_background({})


def test_a_screen_can_be_drawn_where_the_terminal_has_a_name_that_is_not_dumb() -> None:
    assert config.can_draw({"TERM": "xterm-256color"})
    assert not config.can_draw({"TERM": "dumb"})
    assert not config.can_draw({})


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/America/New_York", "America/New_York"),
    ],
)
def test_the_host_s_time_zone_has_the_name_that_tz_says(variable: str, name: str) -> None:
    assert config.host_timezone({"TZ": variable}) == name


def test_a_host_s_time_zone_without_a_name_is_its_offset() -> None:
    assert re.fullmatch(r"[+-]\d{4}", config.host_timezone({"TZ": "XYZ-1ABC"}))


def test_the_gateway_that_the_environment_names_is_known_without_a_configuration() -> None:
    assert config.find_gateway_url({"CLEW_URL": "http://x"}) == "http://x"
    assert config.find_gateway_url({"CLEW_URL": ""}) is None
