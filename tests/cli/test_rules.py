from __future__ import annotations

import pytest

from tests.cli.conftest import Home

CONFIG = """
model = "anthropic/claude-opus-4-5"
[models]
allowed = ["anthropic/claude-opus-4-5", "openai/gpt-5.2"]
aliases = { opus = "anthropic/claude-opus-4-5" }
[[agents]]
id = "home"
default = true
[[agents]]
id = "work"
[[bindings]]
agent = "work"
match = { channel = "whatsapp", account = "biz", peer = "dm:+1000", guild = "g1", team = "t1" }
[session]
dm_scope = "per-peer"
main_key = "main"
identity_links = { alice = ["telegram:123", "discord:987"] }
reset = { mode = "daily", at_hour = 4, idle_minutes = 120 }
reset_by_type = { thread = { mode = "idle", idle_minutes = 180 } }
reset_by_channel = { discord = { mode = "idle", idle_minutes = 10080 } }
reset_triggers = ["/fresh"]
send_policy = { default = "allow", rules = [
  { action = "deny", match = { channel = "discord", chat_type = "group" } }
] }
timezone = "Europe/Berlin"
"""


@pytest.fixture
def configured(home: Home) -> Home:
    """The configuration of the guide."""
    home.path.mkdir(exist_ok=True)
    (home.path / "config.toml").write_text(CONFIG, encoding="utf-8")
    return home


def test_a_route_says_its_key_its_agent_and_why(configured: Home) -> None:
    told = configured.json(
        "explain", "route", "--channel", "whatsapp", "--account", "biz", "--peer", "dm:+1000"
    )
    assert (told["key"], told["agent"], told["account"]) == ("agent:work:dm:+1000", "work", "biz")
    assert told["matched_by"] == "binding.peer"
    linked = configured.json("explain", "route", "--channel", "discord", "--peer", "dm:987")
    assert (linked["key"], linked["linked"]) == ("agent:home:dm:alice", "alice")
    assert linked["considered"][0]["verdict"] == "another channel: whatsapp"


def test_a_route_tells_guests_forums_and_threads_apart(home: Home) -> None:
    def key(*options: str) -> str:
        return str(home.json("explain", "route", "--channel", "telegram", *options)["key"])

    assert key() == key("--peer", "dm:1") == "agent:main:main"
    assert key("--peer", "dm:1", "--guest") == "agent:main:telegram:dm:1"
    group = ("--peer", "group:-5", "--thread", "7")
    assert key(*group) == "agent:main:telegram:group:-5"
    assert key(*group, "--forum") == "agent:main:telegram:group:-5:topic:7"


def test_a_route_is_told_in_words(configured: Home) -> None:
    shown = configured.clew("explain", "route", "--channel", "telegram", "--peer", "dm:123").stdout
    assert shown.startswith("key       agent:home:dm:alice\nagent     home (default)\n")
    assert "bindings[0] (work): another channel: whatsapp" in shown


RESETS = [
    ("agent:home:main", "2026-03-10T04:00", "2026-03-10T05:00", True, "dm", "daily"),
    ("agent:home:main", "2026-03-10T03:59:59.999", "2026-03-10T05:00", False, "dm", "daily"),
    ("agent:home:main", "2026-03-10T03:00Z", "2026-03-10T05:00", True, "dm", "daily"),
    ("agent:home:slack:channel:c:thread:7", "2026-03-10T01:00", "2026-03-10T04:00", True,
     "thread", "idle"),
    ("agent:home:discord:group:5", "2026-03-03T12:00", "2026-03-10T12:00:00.001", False,
     "group", "idle"),
    ("cli:api", "2020-01-01T00:00", "2026-03-10T12:00", True, "dm", "off"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "last", "now", "fresh", "kind", "mode"), RESETS)
def test_a_reset_says_whether_it_goes_on(
    configured: Home, *, key: str, last: str, now: str, fresh: bool, kind: str, mode: str
) -> None:
    told = configured.json("explain", "reset", "--key", key, "--updated-at", last, "--now", now)
    assert (told["fresh"], told["type"], told["policy"]["mode"]) == (fresh, kind, mode)


def test_a_reset_tells_its_boundary_in_the_zone(configured: Home) -> None:
    asked = ["--key", "agent:main:main", "--updated-at", "2026-03-09T23:00"]
    asked += ["--now", "2026-03-10T08:00"]
    told = configured.json("explain", "reset", *asked)
    assert told["boundary"] == "2026-03-10T04:00:00+01:00"
    assert told["policy"] == {"mode": "daily", "at_hour": 4, "idle_minutes": 120}
    other = configured.json("explain", "reset", *asked, "--timezone", "America/New_York")
    assert other["boundary"] == "2026-03-10T04:00:00-04:00"
    shown = configured.clew("explain", "reset", *asked).stdout
    assert "begins anew (idle)" in shown
    assert "daily at 4:00, or after 120 idle minutes" in shown


def test_without_minutes_there_are_none(home: Home) -> None:
    told = home.json(
        "explain", "reset", "--key", "agent:main:main", "--updated-at", "2026-03-10T05:00"
    )
    assert told["policy"] == {"mode": "daily", "at_hour": 4, "idle_minutes": None}


def test_sending_says_the_decision_and_its_rule(configured: Home) -> None:
    asked = ("explain", "send", "--key", "agent:main:discord:group:5")
    told = configured.json(*asked)
    assert (told["decision"], told["rule"]) == ("deny", "rules[0]")
    assert configured.json(*asked, "--override", "allow")["rule"] == "override"
    assert configured.json(*asked, "--chat-type", "direct")["decision"] == "allow"
    assert "stored, not delivered" in configured.clew(*asked).stdout


def test_a_trigger_says_its_remainder_and_model(configured: Home) -> None:
    def look(text: str, *options: str) -> tuple[bool, str, str | None]:
        told = configured.json("explain", "trigger", "--text", text, *options)
        return told["triggered"], told["remainder"], told["model"]

    opus = "anthropic/claude-opus-4-5"
    assert look("/fresh opus  fix [it]\nnow") == (True, "fix [it]\nnow", opus)
    assert look("@Bot /new", "--mention", "bot") == (True, "", None)
    assert look("/new hello", "--guest") == (False, "/new hello", None)
    assert (
        "first words  hello" in configured.clew("explain", "trigger", "--text", "/new hello").stdout
    )


@pytest.mark.parametrize(
    "args",
    [
        ("route",),
        ("route", "--channel", "telegram", "--peer", "42"),
        ("reset", "--key", "x"),
        ("reset", "--key", "x", "--updated-at", "yesterday"),
        ("reset", "--key", "x", "--updated-at", "2026-01-01", "--timezone", "Mars/Base"),
        ("send", "--key", "x", "--chat-type", "party"),
        ("trigger",),
    ],
)
def test_wrong_usage_is_code_2(home: Home, args: tuple[str, ...]) -> None:
    assert home.clew("explain", *args).exit_code == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('reset = { mode = "weekly" }', "session.reset must be a table: mode"),
        ("reset = { at_hour = 24 }", "at_hour (0 to 23)"),
        ("reset = { at_hour = -1 }", "at_hour (0 to 23)"),
        ("reset = { idle_minutes = 0 }", "idle_minutes (at least 1)"),
        ("reset = { hours = 3 }", "session.reset must be"),
        ("reset_by_type = { dms = {} }", "a table of dm, group and thread"),
        ("reset_by_channel = { x = { at_hour = 99 } }", "session.reset_by_channel must be"),
        ("idle_minutes = 0", "a whole number of minutes, at least 1"),
        ('dm_scope = "peer"', '"per-peer"'),
        ("send_policy = { rules = [{ match = {} }] }", "session.send_policy must be a table"),
    ],
)
def test_a_rule_that_can_not_be_is_a_config_error(home: Home, line: str, told: str) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "config.toml").write_text(f"[session]\n{line}\n", encoding="utf-8")
    result = home.clew("explain", "send", "--key", "x")
    assert result.exit_code == 2
    assert told in result.stderr
