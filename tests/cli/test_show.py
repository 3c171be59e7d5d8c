from __future__ import annotations

from clew.core.message import Draft, ToolCall
from tests.cli.conftest import Home

AT = 1_773_484_320_000  # 2026-03-14 10:32 UTC

CALL = Draft(
    role="assistant",
    content="I'll look.",
    tool_calls=(ToolCall("c1", "read_file", '{"path": "src/app.py"}'),),
    at=AT,
)
RESULT = Draft(
    role="tool",
    tool_call_id="c1",
    tool_name="read_file",
    content="\n".join(f"line {number}" for number in range(10)),
    at=AT,
)
UTC = {"CLEW_SESSION_TIMEZONE": "UTC"}


def test_a_transcript_has_role_number_time_and_text(home: Home) -> None:
    session = home.add("Fix it", Draft(role="user", content="What is wrong?\nTell me.", at=AT))
    shown = home.clew("show", session.id, env=UTC).stdout
    assert shown.splitlines()[:2] == ["Fix it", session.id]
    assert shown.endswith("\nuser  #1 · 2026-03-14 10:32\nWhat is wrong?\nTell me.\n")


def test_the_rules_that_hold_are_listed_with_where_they_come_from(home: Home) -> None:
    home.path.mkdir(exist_ok=True)
    file = home.path / "config.toml"
    file.write_text('[tools]\nallow = ["shell:git log"]\n', encoding="utf-8")
    session = home.add("Fix it", "Hi", metadata={"allow": ["shell=make \x1b[2J test", 7]})
    env = {"CLEW_TOOLS_DENY": '["shell:rm"]'}
    rules = home.clew("show", session.id, env=env).stdout.split("\n\n")[0].splitlines()[4:]
    assert rules == [
        "deny shell:rm, from CLEW_TOOLS_DENY",
        f"allow shell:git log, from {file}",
        "allow shell=make  test, from this session",
    ]
    plan = home.add("Plan", "Hi", mode="plan")
    assert "deny *, from plan mode, except for reading" in home.clew("show", plan.id).stdout
    told = home.json("show", session.id)["rules"]
    assert told == [
        {"effect": "allow", "rule": "shell:git log", "source": str(file)},
        {"effect": "allow", "rule": "shell=make \x1b[2J test", "source": "this session"},
    ]


def test_times_are_in_the_zone_that_is_configured(home: Home) -> None:
    session = home.add("Fix it", Draft(role="user", content="Hi", at=AT))
    tokyo = home.clew("show", session.id, env={"CLEW_SESSION_TIMEZONE": "Asia/Tokyo"})
    assert "2026-03-14 19:32" in tokyo.stdout


def test_tools_are_compact(home: Home) -> None:
    session = home.add("Tools", "Look at it", CALL, RESULT)
    shown = home.clew("show", session.id).stdout
    assert '  → read_file {"path": "src/app.py"}\n' in shown
    assert "tool read_file  #3" in shown
    assert "  line 3\n  … 6 more lines\n" in shown
    assert "line 4" not in shown


def test_only_the_newest_messages_where_so_many_are_asked_for(home: Home) -> None:
    session = home.add("Long", *(f"message {number}" for number in range(5)))
    shown = home.clew("show", session.id, "-n", "2").stdout
    assert "… 3 earlier messages" in shown
    assert "message 2" not in shown
    assert "message 3" in shown


def test_escape_sequences_never_reach_the_terminal(home: Home) -> None:
    session = home.add("Odd", "\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07text")
    shown = home.clew("show", session.id).stdout
    assert "red text" in shown
    assert "\x1b" not in shown


def test_what_was_undone_is_shown_only_when_asked_for_and_marked(home: Home) -> None:
    session = home.add("Thread", "kept")
    home.undo_turn(session, "taken back")
    assert "taken back" not in home.clew("show", session.id).stdout
    shown = home.clew("show", session.id, "--undone", env=UTC).stdout
    assert "taken back" in shown
    assert [line for line in shown.splitlines() if line.endswith("· undone")]
    assert home.json("show", session.id, "--undone")["undone"] == [2]


def test_json_has_the_session_and_its_messages_whole(home: Home) -> None:
    session = home.add("Tools", "Look at it", CALL, RESULT)
    shown = home.json("show", session.id)
    assert shown["session"]["short_id"] == session.id[:8]
    assert [message["seq"] for message in shown["messages"]] == [1, 2, 3]
    assert shown["messages"][2]["content"].endswith("line 9")


def test_a_session_without_messages_says_so(home: Home) -> None:
    session = home.add("Empty")
    assert home.clew("show", session.id).stdout.endswith("\nNo messages yet.\n")
