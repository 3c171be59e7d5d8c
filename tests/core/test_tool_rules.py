from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clew.core.tool_rules import UNASKED, judge, matches_path, parse_rule, rule_for
from clew.errors import InvalidInput

META = ";&|`$<>(){}\\\n\r\0\x0b\x1b\u2028"


def run(command: str) -> dict[str, str]:
    return {"command": command}


def at(path: str) -> dict[str, str]:
    return {"path": path}


@pytest.mark.parametrize("tool", ["shell", "write_file", "edit_file", "github_search"])
def test_what_changes_things_asks(tool: str) -> None:
    assert judge(tool, {}, None, (), ()) == "ask"


@pytest.mark.parametrize("tool", sorted(UNASKED))
def test_looking_inside_the_workspace_does_not_ask_and_outside_does(tool: str) -> None:
    assert judge(tool, at("src/a.py"), None, (), ()) == "allow"
    assert judge(tool, at("/etc/passwd"), None, (), ()) == "ask"


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("shell:git log", "git log -3", "allow"),
        ("shell:git log", "git log", "allow"),
        ("shell:git log", "git 'log' --oneline", "allow"),
        ("shell:git log", "git logs", "ask"),
        ("shell:git log", "git", "ask"),
        ("shell:git log", "git push", "ask"),
        ("shell:git log", "X=1 git log", "ask"),
        ("shell:git log", "git log; rm -r .", "ask"),
        ("shell:git log", "git log $(rm -r .)", "ask"),
        ("shell:git log", "git log > a", "ask"),
        ("shell:git log", "git log 'unfinished", "ask"),
        ("shell=make test", "make test", "allow"),
        ("shell=make test", "make test install", "ask"),
        ("shell=ls | wc", "ls | wc", "allow"),
        ("shell", "anything; at | all", "allow"),
        ("write_file", "ls", "ask"),
    ],
)
def test_rules_for_commands(rule: str, command: str, verdict: str) -> None:
    assert judge("shell", run(command), None, (rule,), ()) == verdict


@pytest.mark.parametrize(
    "command",
    [
        "git log --output=~/.bashrc",
        "git log --output ~/.bashrc",
        "git log --outp=x",  # git takes any beginning that is unique
        "git log --o=x",
        "git log '--out'put=x",
        "git log --output-directory=x",
        "git log -o x",
        "git log -ox",
        "git log -po x",
        "git log SHELL=/tmp/x",
        "git log CC=evil",
        "git log a+=b",
        "git log *",  # a file may be called --output=x
        "git log -?utput",
        "git log [-]o",
        "git log --ext-diff",
        "git log --exec=x",
        "git log -exec rm x +",
        "git log -delete",
        "git log --open-files-in-pager=x",
        "git log -Ox",
        "git log > x",
        "git log >> x",
        "git log 2> x",
        "git log < x",
        "git log && rm x",
        "git log & rm x",
        "git log `rm x`",
        "git log $(rm x)",
        "git log $HOME",
        "git log ~/.ssh/id_rsa",
        "git log .env",
        "git log --file=.aws/credentials",
        "git log HEAD:.env",
        "git log ~/.local/state/clew/gateway.token",
    ],
)
def test_the_beginning_of_a_command_allows_no_other_file_and_no_other_program(
    command: str,
) -> None:
    for rule in ("shell:git log", "shell:git"):
        assert judge("shell", run(command), None, (rule,), ()) == "ask"
    # What the owner has named whole, or every command, is theirs to allow.
    assert judge("shell", run(command), None, (f"shell={command}",), ()) == "allow"
    assert judge("shell", run(command), None, ("shell",), ()) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git log --oneline -3",
        "git log -p --stat src/a.py",
        "git log --format=%h --since=1.week",
        "git log -- docs/*.md",
        "git log --no-color",
        "git log --author=ada HEAD~3..HEAD",
        "git log --only-this",
    ],
)
def test_a_plain_command_is_still_allowed_by_its_beginning(command: str) -> None:
    assert judge("shell", run(command), None, ("shell:git log",), ()) == "allow"


def test_a_rule_may_name_such_an_option_itself() -> None:
    assert judge("shell", run("sort -o out in"), None, ("shell:sort -o out",), ()) == "allow"
    assert judge("shell", run("make CC=gcc all"), None, ("shell:make CC=gcc",), ()) == "allow"


@pytest.mark.parametrize(
    ("rule", "path", "verdict"),
    [
        ("write_file", "a/b.txt", "allow"),
        ("write_file", "/tmp/b.txt", "ask"),
        ("write_file", ".git/hooks/x", "ask"),
        ("write_file", "sub/.GIT/config", "ask"),
        ("write_file:.git/**", ".git/config", "allow"),
        ("write_file:docs/*", "docs/a.md", "allow"),
        ("write_file:docs/*", "docs/a/b.md", "ask"),
        ("write_file:docs/**", "docs/a/b.md", "allow"),
        ("write_file:**/*.md", "a.md", "allow"),
        ("write_file:**/*.md", "/home/a.md", "ask"),
        ("write_file:**", "/home/a.md", "ask"),
        ("write_file:/tmp/**", "/tmp/a", "allow"),
        ("write_file:/tmp/**", "/tmpx/a", "ask"),
        ("write_file=/tmp/[a]*", "/tmp/[a]*", "allow"),
        ("write_file=/tmp/[a]*", "/tmp/ab", "ask"),
        ("edit_file", "a", "ask"),
        ("*_file", "a", "allow"),
    ],
)
def test_rules_for_paths(rule: str, path: str, verdict: str) -> None:
    assert judge("write_file", at(path), None, (rule,), ()) == verdict


def test_denying_wins_over_everything() -> None:
    assert judge("shell", run("git push"), None, ("shell", "shell:git"), ("shell:git push",)) == (
        "deny"
    )
    assert judge("write_file", at("/x"), None, ("write_file:/**",), ("write_file",)) == "deny"
    for path in (".env", "a/.env.local", "/home/me/.env"):
        assert judge("read_file", at(path), None, (), ("read_file:**/.env*",)) == "deny"


@pytest.mark.parametrize(
    "command",
    ["rm -r x", "true; rm -r x", "a | rm -r", "$(rm -r)", "'rm' -r x", "\\rm -r", "a\nrm -r"],
)
def test_a_denied_beginning_is_found_inside_of_commands(command: str) -> None:
    assert judge("shell", run(command), None, ("shell",), ("shell:rm",)) == "deny"


def test_plan_mode_denies_what_changes_things_whatever_is_allowed() -> None:
    for tool in ("shell", "write_file", "memory_write", "spawn", "github_search"):
        assert judge(tool, {}, "plan", ("*",), ()) == "deny"
    for tool in ("read_file", "todo_write", "propose_plan"):
        assert judge(tool, {}, "plan", (), ()) == "allow"


# Words that are plain by themselves, so that nothing but the sign can make the difference.
plain = st.text("ab -./~", max_size=20)


@pytest.mark.parametrize("meta", META)
@given(before=plain, after=plain)
@example(before="", after="rm -r .")
def test_no_command_with_a_metacharacter_is_allowed_by_its_beginning(
    meta: str, before: str, after: str
) -> None:
    rules = ("shell:git log", "shell:git")
    assert judge("shell", run(f"git log {before}{after}"), None, rules, ()) == "allow"
    assert judge("shell", run(f"git log {before}{meta}{after}"), None, rules, ()) == "ask"


@given(command=st.text(max_size=60), meta=st.sampled_from(META), place=st.integers(0, 60))
def test_nor_is_any_other_text_with_one(command: str, meta: str, place: int) -> None:
    hidden = f"git log {command[:place]}{meta}{command[place:]}"
    assert judge("shell", run(hidden), None, ("shell:git log",), ()) == "ask"


@given(command=st.text(max_size=600))
def test_what_an_answer_remembers_allows_that_command_and_no_longer_one(command: str) -> None:
    rule = rule_for("shell", run(command))
    if rule is None or not command.strip():
        return
    assert judge("shell", run(command), None, (rule,), ()) == "allow"
    assert judge("shell", run(command + " x"), None, (rule,), ()) == "ask"


@given(path=st.text(min_size=1, max_size=100).filter(lambda text: text.strip()))
def test_a_path_outside_is_remembered_alone(path: str) -> None:
    outside = "/" + path
    rule = rule_for("read_file", at(outside))
    assert rule is not None
    assert judge("read_file", at(outside), None, (rule,), ()) == "allow"
    assert judge("read_file", at(outside + "x"), None, (rule,), ()) == "ask"


def test_a_command_that_is_too_long_can_not_be_remembered() -> None:
    assert rule_for("shell", run("x" * 600)) is None
    assert rule_for("write_file", at("a")) == "write_file"
    assert rule_for("github_search", {}) == "github_search"


@pytest.mark.parametrize(
    "rule", ["", " ", "shell:", "shell: ", "shell:a|b", "shell:'", "write_file:", "a b", "é"]
)
def test_a_rule_that_can_not_be_read_is_refused(rule: str) -> None:
    with pytest.raises(InvalidInput):
        parse_rule(rule)


@given(rule=st.text(max_size=40), command=st.text(max_size=40))
def test_any_text_is_a_rule_or_refused(rule: str, command: str) -> None:
    try:
        parse_rule(rule)
    except InvalidInput:
        return
    assert judge("shell", run(command), None, (rule,), (rule,)) in ("allow", "ask", "deny")


def test_paths_are_matched_literally_but_for_the_signs() -> None:
    assert matches_path("a.b", "a.b")
    assert not matches_path("a.b", "axb")
    assert matches_path("a?c/**", "abc/d/e")
