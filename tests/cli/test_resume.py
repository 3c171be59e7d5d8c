"""Which session a chat opens: every rule of "finding and resuming", through the command line.

| rule                                                   | test                                    |
|--------------------------------------------------------|-----------------------------------------|
| the key is `cli:<directory>`                           | a_session_has_its_directorys_key        |
| `--key`, `CLEW_SESSION_KEY`                            | a_key_of_one_s_own                      |
| two directories named alike don't share                | two_directories_named_alike_don_t_share |
| a moved directory's session follows                    | a_moved_directory_takes_its_session     |
| `scope = "git"`                                        | with_scope_git_the_repository_counts    |
| `/new`: `<key>:<ms>`, survives a restart, old one stays| new_survives_a_restart                  |
| `/reset`; under `--key K` the row is `K:<ms>`          | reset_under_a_key_of_one_s_own          |
| keys linked from elsewhere keep pointing               | new_leaves_other_keys_alone             |
| `/new` and no message: no row, fresh with/without `-c` | new_without_a_message_leaves_no_row     |
| none: the key's session, else new on the first message | nothing_is_made_before_a_message        |
| `-c`: this terminal's breadcrumb                       | continue_takes_this_terminals_session   |
| `-c`: only if its directory is the cwd                 | a_breadcrumb_of_elsewhere_does_not_count|
| `-c`: else the newest non-empty CLI session here       | continue_takes_this_directorys_newest   |
| `-c`: else the newest CLI session anywhere, said       | continue_says_where_it_is_from          |
| `-c`: else a new one, said                             | continue_with_nothing_to_continue       |
| `-c`: only platform `cli`                              | continue_takes_no_channels_session      |
| `-c ID`, `-r ID`                                       | a_session_is_found_by                   |
| `--resume` alone: none, cancelled, chosen              | resume_alone_…, choosing_…              |
| `--fork` with any of these                             | fork_branches_instead                   |
| `--read-only`                                          | read_only_shows_and_refuses             |
| id on stderr at creation and on exit, the hint         | the_id_and_the_hint_are_on_stderr       |
| nothing when no message was sent; `--no-resume-hint`   | no_hint_…                               |
| resolution: id, title, part, ending, export, key, words| a_session_is_found_by                   |
| this directory's sessions first                        | this_directorys_sessions_come_first     |
| sessions without a directory open without a question   | a_channels_session_opens_unasked        |
| path-like, but no file and no `.jsonl`: goes on        | what_looks_like_a_path_may_be_a_title   |
| an empty value is an error                             | an_empty_value_is_an_error              |
| several: exit 2 with the candidates, newest first      | several_matches_are_listed              |
| several, on a terminal: choose                         | several_matches_are_chosen_from         |
| none: not found, three nearest titles, exit 1          | nothing_found_names_the_nearest         |
| another directory, without a terminal: exit 1          | another_projects_session_is_refused     |
| another directory: f, o, n                             | another_projects_session_asks           |
| its directory is gone: move it here                    | a_session_of_a_gone_directory_…         |
| path: imported once, the file is never written to      | a_transcript_is_imported_and_left_alone |
| path: missing or empty: exported at the end            | a_missing_transcript_is_written         |
| path: no transcript: error, untouched                  | what_is_no_transcript_is_left_alone     |
| path: a bad line is skipped, counted and reported      | a_bad_line_is_reported                  |
| path: real I/O errors as they are                      | files_that_can_t_be_read                |
| breadcrumb: written at attach, switch, exit; silent    | a_breadcrumb_that_can_t_be_kept         |
| terminal id: the tty, else a variable                  | the_breadcrumb_is_named_after_the_tty   |
| titles: automatic, never over the user's               | titles_…                                |
| switch: a hook may refuse; exit 1 at start-up          | a_hook_may_refuse_the_start             |
| switch: "Resumed session", settings restored           | resume_inside_the_chat                  |
| switch: a model that is gone                           | a_model_that_is_gone_is_replaced        |
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from clew.core.session import Session, SessionFilter
from clew.ports import Store
from tests.cli.conftest import Home
from tests.cli.screens import Terminal

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.script({"text": "You said: ", "echo": "user"})
    return home


@pytest.fixture
def api(tmp_path: Path) -> Path:
    return make(tmp_path / "one" / "api")


def make(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()


def session_in(result: Result) -> str:
    """The id that a chat said at its end."""
    assert result.exit_code == 0, result.output
    return str(re.findall(rf"^Session ({ID})$", result.stderr, re.MULTILINE)[-1])


def sessions(home: Home) -> dict[str, Session]:
    async def look(store: Store) -> dict[str, Session]:
        page = await store.list_sessions(SessionFilter(viewer="owner", archived=None), limit=50)
        return {each.id: each for each in page.sessions}

    return home.store(look)


def said(home: Home, session_id: str) -> list[str]:
    async def look(store: Store) -> list[str]:
        return [each.content for each in await store.get_messages(session_id)]

    return home.store(look)


def test_the_table_above_names_tests_that_exist() -> None:
    rows = [row for row in (__doc__ or "").splitlines() if row.startswith("| ")][1:]
    known = [name for name in globals() if name.startswith("test_")]
    for row in rows:
        for name in re.findall(r"[a-z_]{4,}", row.split("|")[-2]):
            assert any(each.startswith(f"test_{name}") for each in known), name


# --- keys -------------------------------------------------------------------------------------


def test_a_session_has_its_directorys_key(home: Home, api: Path) -> None:
    one = session_in(home.chat("hello", cwd=api))
    assert sessions(home)[one].key == "cli:api"
    assert (sessions(home)[one].cwd, sessions(home)[one].platform) == (str(api), "cli")
    assert session_in(home.chat("again", cwd=api)) == one
    assert said(home, one)[::2] == ["hello", "again"]


def test_a_key_of_one_s_own(home: Home, api: Path, tmp_path: Path) -> None:
    one = session_in(home.chat("hello", args=["--key", "notes"], cwd=api))
    environment = {"CLEW_SESSION_KEY": "notes"}
    assert sessions(home)[one].key == "notes"
    assert session_in(home.chat("again", cwd=tmp_path, env=environment)) == one
    assert home.ask("more", "--key", "notes", cwd=tmp_path).exit_code == 0
    assert said(home, one)[::2] == ["hello", "again", "more"]


def test_two_directories_named_alike_don_t_share(home: Home, api: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "two" / "api")
    one = session_in(home.chat("hello", cwd=api))
    two = session_in(home.chat("hello", cwd=other))
    assert one != two
    assert re.fullmatch(r"cli:api~[0-9a-f]{6}", sessions(home)[two].key)
    assert session_in(home.chat("again", cwd=api)) == one
    assert session_in(home.chat("again", cwd=other)) == two


def test_a_moved_directory_takes_its_session(home: Home, api: Path, tmp_path: Path) -> None:
    one = session_in(home.chat("hello", cwd=api))
    moved = api.rename(tmp_path / "renamed")
    result = home.chat("again", cwd=moved)
    assert session_in(result) == one
    assert f"This directory was {api}: its sessions moved with it." in result.stderr
    assert sessions(home)[one].cwd == str(moved)


def test_with_scope_git_the_repository_counts(home: Home, api: Path) -> None:
    home.script("Hello.", more='[session]\nscope = "git"')
    make(api / ".git")
    one = session_in(home.chat("hello", cwd=make(api / "src" / "deep")))
    assert session_in(home.chat("again", cwd=api)) == one
    assert sessions(home)[one].key == "cli:api"


# --- /new -------------------------------------------------------------------------------------


def test_new_survives_a_restart(home: Home, api: Path) -> None:
    old = session_in(home.chat("old", cwd=api))
    new = session_in(home.chat("/new", "begin", cwd=api))
    assert re.fullmatch(r"cli:api:\d{13}", sessions(home)[new].key)
    assert session_in(home.chat("on", cwd=api)) == new
    assert said(home, new)[::2] == ["begin", "on"]
    assert old in {each["id"] for each in home.json("list")["sessions"]}
    assert session_in(home.chat(f"/resume {old}", "back", cwd=api)) == old
    assert session_in(home.chat("still", cwd=api)) == old


def test_reset_under_a_key_of_one_s_own(home: Home, api: Path) -> None:
    home.chat("old", args=["--key", "notes"], cwd=api)
    new = session_in(home.chat("/reset", "begin", args=["--key", "notes"], cwd=api))
    assert re.fullmatch(r"notes:\d{13}", sessions(home)[new].key)
    assert session_in(home.chat("on", args=["--key", "notes"], cwd=api)) == new


def test_new_leaves_other_keys_alone(home: Home, api: Path) -> None:
    old = session_in(home.chat("old", cwd=api))

    async def link(store: Store) -> None:
        await store.set_route("telegram:dm:1", old)

    async def look(store: Store) -> Session | None:
        return await store.find_route("telegram:dm:1")

    home.store(link)
    home.chat("/new begin", cwd=api)
    found = home.store(look)
    assert found is not None
    assert found.id == old


@pytest.mark.parametrize("args", [[], ["-c"]], ids=["plain", "continue"])
def test_new_without_a_message_leaves_no_row(home: Home, api: Path, args: list[str]) -> None:
    terminal = {"TMUX_PANE": "%1"}
    old = session_in(home.chat("old", cwd=api, env=terminal))
    result = home.chat("/new", cwd=api, env=terminal)
    assert "Resume this session" not in result.stderr
    assert list(sessions(home)) == [old]
    fresh = session_in(home.chat("begin", args=args, cwd=api, env=terminal))
    assert fresh != old
    assert said(home, fresh)[0] == "begin"


# --- starting ---------------------------------------------------------------------------------


def test_nothing_is_made_before_a_message(home: Home, api: Path) -> None:
    result = home.chat("/status", "/title Later", "/help", cwd=api)
    assert result.exit_code == 0
    assert sessions(home) == {}
    assert not re.search(ID, result.stderr)


def test_the_id_and_the_hint_are_on_stderr(home: Home, api: Path) -> None:
    result = home.chat("hello", "/title Greeting", "again", args=["--plain"], cwd=api)
    one = session_in(result)
    assert result.stdout.splitlines() == [
        "You said: hello", "The title is now: Greeting", "You said: again",
    ]  # fmt: skip
    lines = result.stderr.splitlines()
    assert lines.count(f"Session {one}") == 2
    assert lines[-2:] == [
        '"Greeting", under a minute, 2 messages sent, 4 in all.',
        f"Resume this session with: clew -r {one[:8]}",
    ]


def test_a_chat_greets_an_untitled_session_by_its_first_prompt(home: Home, api: Path) -> None:
    one = session_in(home.chat("hello there", cwd=api))
    assert home.clew("rename", one, "--clear").exit_code == 0
    result = home.chat("/status", cwd=api)
    assert '"hello there", 2 messages, ' in result.stderr


def test_no_hint_where_no_message_was_sent(home: Home, api: Path) -> None:
    one = session_in(home.chat("hello", cwd=api))
    result = home.chat("/status", cwd=api)
    assert session_in(result) == one
    assert "Resume this session" not in result.stderr


def test_no_hint_where_none_is_wanted(home: Home, api: Path) -> None:
    result = home.chat("hello", args=["--no-resume-hint"], cwd=api)
    assert result.stderr.splitlines()[-1] == f"Session {session_in(result)}"


def test_continue_takes_this_terminals_session(home: Home, api: Path) -> None:
    one, two = {"TMUX_PANE": "%1"}, {"TMUX_PANE": "%2"}
    first = session_in(home.chat("first", cwd=api, env=one))
    second = session_in(home.chat("/new second", cwd=api, env=two))
    assert first != second
    assert session_in(home.chat("on", args=["-c"], cwd=api, env=one)) == first
    assert session_in(home.chat("on", args=["--continue"], cwd=api, env=two)) == second


def test_a_breadcrumb_of_elsewhere_does_not_count(home: Home, api: Path, tmp_path: Path) -> None:
    terminal = {"TMUX_PANE": "%1"}
    here = session_in(home.chat("here", cwd=api))
    home.chat("there", cwd=make(tmp_path / "there"), env=terminal)
    assert session_in(home.chat("on", args=["-c"], cwd=api, env=terminal)) == here


def test_continue_takes_this_directorys_newest(home: Home, api: Path, tmp_path: Path) -> None:
    home.chat("old", cwd=api)
    new = session_in(home.chat("/new begin", cwd=api))
    home.chat("newer, elsewhere", cwd=make(tmp_path / "there"))
    home.add("empty, and newest", cwd=str(api))
    assert session_in(home.chat("on", args=["-c"], cwd=api)) == new


def test_continue_says_where_it_is_from(home: Home, api: Path, tmp_path: Path) -> None:
    one = session_in(home.chat("hello", "/title Greeting", cwd=api))
    result = home.chat(args=["-c"], cwd=make(tmp_path / "there"))
    assert session_in(result) == one
    said_so = f'There is no session in this directory: continuing "Greeting" from {api}.'
    assert said_so in result.stderr


def test_continue_with_nothing_to_continue(home: Home, api: Path) -> None:
    result = home.chat("hello", args=["-c"], cwd=api)
    assert "There is no session to continue: a new one begins." in result.stderr
    assert said(home, session_in(result))[0] == "hello"


def test_continue_takes_no_channels_session(home: Home, api: Path) -> None:
    home.add("A chat", "hi", platform="telegram", kind="dm", key="telegram:dm:1")
    result = home.chat(args=["-c"], cwd=api)
    assert "There is no session to continue" in result.stderr


def test_resume_alone_with_nothing_to_resume(home: Home, api: Path) -> None:
    for flag in ("-r", "--resume"):
        result = home.chat("hello", args=[flag], cwd=api)
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "No sessions found\n"
    assert sessions(home) == {}


def test_resume_alone_where_nobody_can_choose(home: Home, api: Path) -> None:
    home.add("One", "hello", cwd=str(api))
    assert home.chat(args=["-r"], cwd=api).exit_code == 2


def test_continue_and_resume_together_are_wrong_usage(home: Home, api: Path) -> None:
    assert home.chat(args=["-c", "-r", "x"], cwd=api).exit_code == 2


def test_fork_branches_instead(home: Home, api: Path) -> None:
    terminal = {"TMUX_PANE": "%1"}
    one = session_in(home.chat("hello", "/title Greeting", cwd=api, env=terminal))
    seen = {one}
    for args in ([], ["-c"], ["-r", "greeting"], ["-c", one[:8]]):
        branch = session_in(home.chat("on", args=[*args, "--fork"], cwd=api, env=terminal))
        assert branch not in seen
        assert said(home, branch)[0] == "hello"
        assert sessions(home)[branch].parent_id in seen
        seen.add(branch)
    assert said(home, one)[::2] == ["hello"]


def test_read_only_shows_and_refuses(home: Home, api: Path) -> None:
    one = session_in(home.chat("hello", cwd=api))
    result = home.chat("more", "/title New", "/undo", args=["--read-only"], cwd=api)
    assert session_in(result) == one
    assert "> hello\nYou said: hello\n" in result.stdout
    assert result.stderr.count("read-only") == 3
    assert said(home, one) == ["hello", "You said: hello"]
    branch = session_in(home.chat("/fork", "more", args=["--read-only"], cwd=api))
    assert branch != one
    assert home.chat(args=["--read-only", "--key", "none"], cwd=api).exit_code == 1


# --- resolution -------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-r", "-c"])
def test_a_session_is_found_by(home: Home, api: Path, flag: str) -> None:
    """Its id, title, the parts of its id, its export's name, its key and words of its title."""
    one = session_in(home.chat("hello", "/title The login bug", cwd=api))
    home.chat("/new", "another", "/title Something else", cwd=api)
    values = [one, one.upper(), "the LOGIN bug", one[:4], one.replace("-", "")[:12], one[-6:]]
    values += [f"session-{one}.md", "cli:api", "ogin bu"]
    for value in values:
        if value == "cli:api":  # leads to the newer one
            continue
        result = home.chat(args=[flag, value], cwd=api)
        assert session_in(result) == one, value
    key = sessions(home)[one].key
    home.chat(args=["-r", one], cwd=api)
    assert session_in(home.chat(args=[flag, key], cwd=api)) == one


def test_this_directorys_sessions_come_first(home: Home, api: Path, tmp_path: Path) -> None:
    here = home.add("Same", "one", cwd=str(api), project=str(api))
    there = make(tmp_path / "there")
    home.add("Same", "two", key="cli:there", cwd=str(there), project=str(there))
    assert session_in(home.chat(args=["-r", "same"], cwd=api)) == here.id


def test_a_channels_session_opens_unasked(home: Home, api: Path) -> None:
    theirs = home.add("Chat", "hi", platform="telegram", kind="dm", key="telegram:dm:1")
    result = home.chat("hello", args=["-r", "chat"], cwd=api)
    assert session_in(result) == theirs.id
    assert said(home, theirs.id)[1] == "hello"


def test_what_looks_like_a_path_may_be_a_title(home: Home, api: Path) -> None:
    one = home.add("fix src/login", "hello", cwd=str(api), project=str(api))
    assert session_in(home.chat(args=["-r", "fix src/login"], cwd=api)) == one.id


@pytest.mark.parametrize("value", ["", "  "])
@pytest.mark.parametrize("flag", ["-r", "-c"])
def test_an_empty_value_is_an_error(home: Home, api: Path, flag: str, value: str) -> None:
    home.add("One", "hello", cwd=str(api))
    result = home.chat("hello", args=[flag, value], cwd=api)
    assert result.exit_code == 2
    assert "empty value" in result.stderr
    assert len(sessions(home)) == 1


def test_several_matches_are_listed_where_nobody_can_choose(home: Home, api: Path) -> None:
    ids = [home.add("Same", "x", key=f"cli:{number}", cwd=str(api)).id for number in range(3)]
    result = home.chat("hello", args=["-r", "same"], cwd=api)
    assert result.exit_code == 2
    shown = re.findall(r"\b[0-9a-f]{8}\b", result.stderr)
    assert shown == [each[:8] for each in reversed(ids)]
    assert result.stderr.count("just now") == 3
    assert result.stderr.count("api") >= 3


def test_nothing_found_names_the_nearest(home: Home, api: Path) -> None:
    for title in ("Login bug", "Login page", "Logout", "Quite different"):
        home.add(title, "x")
    result = home.chat("hello", args=["-r", "lgin bug"], cwd=api)
    assert result.exit_code == 1
    assert 'Session "lgin bug" not found.' in result.stderr
    assert [
        each for each in ("Login bug", "Login page", "Logout") if each not in result.stderr
    ] == []
    assert "different" not in result.stderr


def test_another_projects_session_is_refused_where_nobody_is_asked(
    home: Home, api: Path, tmp_path: Path
) -> None:
    one = session_in(home.chat("hello", "/title Greeting", cwd=api))
    there = make(tmp_path / "there")
    result = home.chat("on", args=["-r", one], cwd=there)
    assert result.exit_code == 1
    assert f'Session "Greeting" is in another project ({api}).' in result.stderr
    assert said(home, one)[::2] == ["hello"]
    branch = session_in(home.chat("on", args=["-r", one, "--fork"], cwd=there))
    assert sessions(home)[branch].cwd == str(there)


# --- transcripts ------------------------------------------------------------------------------


def test_a_transcript_is_imported_and_left_alone(home: Home, api: Path, tmp_path: Path) -> None:
    one = session_in(home.chat("hello", "/export talk.jsonl", cwd=api))
    file = api / "talk.jsonl"
    before = file.read_bytes()
    other = Home(tmp_path / "other")
    other.script({"text": "You said: ", "echo": "user"})
    for text in ("on", "and on"):
        assert session_in(other.chat(text, args=["-r", "talk.jsonl"], cwd=api)) == one
    assert said(other, one)[::2] == ["hello", "on", "and on"]
    assert file.read_bytes() == before


@pytest.mark.parametrize("empty", [False, True], ids=["missing", "zero bytes"])
def test_a_missing_transcript_is_written_at_the_end(home: Home, api: Path, *, empty: bool) -> None:
    file = api / "new.jsonl"
    if empty:
        file.touch()
    assert home.chat("/help", args=["-r", "./new.jsonl"], cwd=api).exit_code == 0
    assert file.exists() == empty
    assert not empty or not file.stat().st_size
    one = session_in(home.chat("hello", args=["-r", "./new.jsonl"], cwd=api))
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    assert one in str(lines[0])
    assert "You said: hello" in str(lines)


def unreadable_files(api: Path) -> Iterator[tuple[str, str]]:
    (api / "garbage.jsonl").write_bytes(b"\x00\xff no transcript\n" * 20)
    yield "garbage.jsonl", "not a clew transcript"
    (api / "other.json").write_text('{"a": 1}\n')
    yield "./other.json", "not a clew transcript"
    (api / "folder.jsonl").mkdir()
    yield "folder.jsonl", "is a directory"


def test_what_is_no_transcript_is_left_alone(home: Home, api: Path) -> None:
    for value, told in unreadable_files(api):
        path = api / value
        before = path.read_bytes() if path.is_file() else None
        result = home.chat("hello", args=["-r", value], cwd=api)
        assert result.exit_code == 1, value
        assert told in result.stderr
        assert (path.read_bytes() if path.is_file() else None) == before
    assert sessions(home) == {}


def test_files_that_can_t_be_read_say_why(home: Home, api: Path) -> None:
    (api / "loop.jsonl").symlink_to(api / "loop.jsonl")
    (api / "closed.jsonl").write_text("{}\n")
    (api / "closed.jsonl").chmod(0)
    values = {"loop.jsonl": "can't be read: ", "no/folder/new.jsonl": "There is no directory"}
    if os.geteuid():  # root may read anything
        values |= {"closed.jsonl": "can't be read: Permission denied"}
    for value, told in values.items():
        result = home.chat("hello", args=["-r", value], cwd=api)
        assert result.exit_code == 1, value
        assert told in result.stderr
    assert sessions(home) == {}


def test_a_bad_line_is_reported(home: Home, api: Path, tmp_path: Path) -> None:
    home.chat("hello", "again", "/export talk.jsonl", cwd=api)
    file = api / "talk.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"broken\n'
    file.write_bytes(b"".join(lines))
    other = Home(tmp_path / "other")
    other.script("Hello.")
    result = other.chat("on", args=["-r", "talk.jsonl"], cwd=api)
    assert session_in(result)
    assert re.search(
        r"1 line of .*talk\.jsonl could not be read and was left out.*3", result.stderr
    )


# --- breadcrumbs, titles, switching ------------------------------------------------------------


def test_a_breadcrumb_that_can_t_be_kept_is_no_trouble(home: Home, api: Path) -> None:
    (home.path / "terminals").write_text("in the way")
    result = home.chat("hello", cwd=api, env={"TMUX_PANE": "%1"})
    assert session_in(result)
    assert "terminals" not in result.stderr


def test_titles_come_from_the_model_and_never_over_the_user_s(home: Home, api: Path) -> None:
    home.script("Hello.", title="A model's title")
    one = session_in(home.chat("hello there", "/status", cwd=api))
    assert sessions(home)[one].title in ("A model's title", "hello there")
    two = session_in(home.chat("/new", "/title Mine", "hello", "again", cwd=api))
    assert sessions(home)[two].title == "Mine"


def test_titles_are_the_first_words_where_the_model_makes_none(home: Home, api: Path) -> None:
    one = session_in(home.chat("why is the sky blue on a sunny day like this one", cwd=api))
    title = sessions(home)[one].title
    assert title is not None
    assert "why is the sky blue on a sunny day like this one".startswith(title.rstrip("…").strip())


def test_a_hook_may_refuse_the_start(home: Home, api: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text('#!/bin/sh\necho \'{"cancel": true, "reason": "not today"}\'\n')
    hook.chmod(0o755)
    home.script("Hello.", more=f'[hooks]\nsession_before_switch = ["{hook}"]')
    result = home.chat("hello", cwd=api)
    assert result.exit_code == 1
    assert "not today" in result.stderr
    assert sessions(home) == {}


def test_resume_inside_the_chat_restores_the_session(home: Home, api: Path) -> None:
    one = session_in(home.chat("hello", "/mode plan", "/personality engineer", cwd=api))
    result = home.chat("/new other", f"/resume {one[:8]}", "/status", cwd=api)
    assert session_in(result) == one
    assert "Resumed session" in result.stderr
    shown = result.stdout[result.stdout.rindex("> hello") :]
    assert re.search(r"^mode +plan$", shown, re.MULTILINE)
    assert re.search(r"^personality +engineer$", shown, re.MULTILINE)
    refused = home.chat("/resume nothing like it", cwd=api)
    assert 'Session "nothing like it" not found.' in refused.stderr
    assert session_in(refused) == one


def test_a_model_that_is_gone_is_replaced(home: Home, api: Path) -> None:
    home.chat("hello", cwd=api)
    config = home.path / "config.toml"
    told = config.read_text().replace("script/x", "played/x")
    config.write_text(told.replace("[providers.script]", "[providers.played]"))
    result = home.chat("again", cwd=api)
    assert result.exit_code == 0
    assert "script/x is no longer configured; going on with played/x." in result.stderr
    assert "You said: again" in result.stdout


# --- where a person can be asked ---------------------------------------------------------------


def test_choosing_from_this_directorys_sessions(home: Home, api: Path) -> None:
    for title in ("First", "Second"):
        home.add(title, "hello", cwd=str(api), project=str(api))
    cancelled = Terminal(home, "--plain", "--resume", cwd=api)
    cancelled.wait_for("Which one? [1-2, Enter for none] ")
    cancelled.type("\n")
    assert cancelled.finish() == 0
    assert cancelled.text.endswith("No session selected\n")
    chosen = Terminal(home, "--plain", "--resume", cwd=api)
    assert chosen.wait_for("Which one?").index("Second") < chosen.text.index("First")
    chosen.say("2")
    chosen.say("/title")
    assert '"First"' in chosen.text
    chosen.type("/resume\n")
    chosen.wait_for("Which one? [1-2, Enter for none] ")
    assert "Resumed session\n" not in chosen.say("")
    chosen.type("/resume\n")
    chosen.wait_for("Which one? [1-2, Enter for none] ")
    assert "Resumed session\n" in chosen.say("1")
    assert chosen.leave() == 0
    assert "Resume this session" not in chosen.text


def test_several_matches_are_chosen_from_on_a_terminal(home: Home, api: Path) -> None:
    ids = [home.add("Same", "x", key=f"cli:{n}", cwd=str(api), project=str(api)).id for n in "ab"]
    home.add("Other", "x", cwd=str(api), project=str(api))
    terminal = Terminal(home, "--plain", "-r", "same", cwd=api)
    assert "Other" not in terminal.wait_for("Which one? [1-2, Enter for none] ")
    terminal.say("2")
    assert terminal.leave() == 0
    assert f"Session {ids[0]}\n" in terminal.text


@pytest.mark.parametrize("answer", ["f", "o", "n"])
def test_another_projects_session_asks(home: Home, api: Path, tmp_path: Path, answer: str) -> None:
    there = make(tmp_path / "there")
    one = home.add("Greeting", "hello", cwd=str(api), project=str(api))
    terminal = Terminal(home, "--plain", "-r", one.id, cwd=there, width=300)
    asked = f'Session "Greeting" belongs to {api}. [f]ork it here, [o]pen it there, [n]o: '
    terminal.wait_for(asked)
    if answer == "n":
        terminal.type("n\n")
        assert terminal.finish() == 1
        refused = f'Session "Greeting" is in another project ({api}).'
        assert terminal.text.endswith(f"{refused}\n")
        return
    terminal.say(answer)
    terminal.say("on")
    assert terminal.leave() == 0
    opened = sessions(home)[re.findall(rf"Session ({ID})", terminal.text)[-1]]
    assert said(home, opened.id)[:2] == ["hello", "on"]
    if answer == "o":
        assert (opened.id, opened.cwd) == (one.id, str(api))
    else:
        assert (opened.parent_id, opened.cwd) == (one.id, str(there))


def test_a_session_of_a_gone_directory_can_be_moved_here(
    home: Home, api: Path, tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone")
    one = home.add("Greeting", "hello", cwd=gone, project=gone)
    refused = home.chat(args=["-r", one.id], cwd=api)
    assert refused.exit_code == 1
    assert "gone" in refused.stderr
    terminal = Terminal(home, "--plain", "-r", one.id, cwd=api, width=300)
    terminal.wait_for("[m]ove it here, [f]ork it here, [n]o: ")
    terminal.say("m")
    assert terminal.leave() == 0
    assert sessions(home)[one.id].cwd == str(api)
    assert session_in(home.chat(cwd=api)) == one.id


def test_the_breadcrumb_is_named_after_the_tty(home: Home, api: Path) -> None:
    terminal = Terminal(home, "--plain", cwd=api, TMUX_PANE="%9")
    terminal.wait_for("> ")
    terminal.say("hello")
    name = terminal.name.removeprefix("/dev/").replace("/", "-")
    crumb = msgspec.json.decode((home.path / "terminals" / name).read_bytes())
    (one,) = sessions(home)
    assert (crumb["cwd"], crumb["session_id"], crumb["fresh"]) == (str(api), one, False)
    terminal.say("/new")
    crumb = msgspec.json.decode((home.path / "terminals" / name).read_bytes())
    assert (crumb["session_id"], crumb["fresh"]) == (None, True)
    assert terminal.leave() == 0
    assert not (home.path / "terminals" / "tmux-%9").exists()
