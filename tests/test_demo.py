"""The demo, and the corpus that it is made of."""

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.core.changes import AddMessage, StartTurn
from clew.core.search.query import spaceless_tokens
from clew.testing.corpus import Conversation, Corpus, Fork
from tests.forks import run_clew

NOW = 1_777_636_800_000
HOUR = 3_600_000

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def own_home(tmp_path: Path) -> Path:
    """Where this person's clew keeps its state."""
    return tmp_path / "own"


@pytest.fixture
def clew(own_home: Path) -> Run:
    """The command line, as that person calls it."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "CLEW_HOME": str(own_home), **variables}
        ran = run_clew(arguments, env=environment)
        return subprocess.CompletedProcess(
            ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
        )

    return run


def make(clew: Run, *arguments: str, **variables: str) -> dict[str, Any]:
    made = clew("demo", "--json", *arguments, **variables)
    assert made.returncode == 0, made.stderr
    result: dict[str, Any] = json.loads(made.stdout)
    return result


def test_every_command_that_the_demo_prints_shows_something(clew: Run, tmp_path: Path) -> None:
    demo = make(clew, "--home", str(tmp_path / "scratch dir"))
    assert len(demo["commands"]) >= 6
    for command in demo["commands"]:
        shown = clew(*shlex.split(command)[1:])
        assert shown.returncode == 0, (command, shown.stderr)
        assert len(shown.stdout.splitlines()) > 1, command


def test_the_demo_has_the_messages_that_were_asked_for(clew: Run, tmp_path: Path) -> None:
    demo = make(clew, "--home", str(tmp_path / "demo"), "--sessions", "12", "--messages", "101")
    assert demo["messages"] == 101
    assert demo["sessions"] == 12


def test_the_same_seed_makes_the_same_demo_and_forks_are_not_all_new(
    clew: Run, tmp_path: Path
) -> None:
    demos = []
    for name in ("one", "two"):
        place = str(tmp_path / name)
        assert make(clew, "--home", place)["sessions"] == 40
        listed = json.loads(clew("--home", place, "sessions", "--json").stdout)["sessions"]
        newest = max(session["updated_at"] for session in listed)
        demos.append([
            (each["id"], each.get("title"), each["message_count"], newest - each["updated_at"])
            for each in listed
        ])  # fmt: skip
        forks = [session for session in listed if session["parent_id"]]
        assert forks
        assert all(time.time() * 1000 - session["created_at"] > HOUR for session in forks)
        assert all(session["head"] > session["forked_at_seq"] for session in forks)
    assert demos[0] == demos[1]


def test_one_session_is_one(clew: Run, tmp_path: Path) -> None:
    made = clew("demo", "--home", str(tmp_path / "demo"), "--sessions", "1", "--messages", "1")
    assert made.stdout.startswith("Made 1 session with 1 message in ")


def test_without_a_home_the_demo_makes_a_new_directory_each_time(clew: Run, tmp_path: Path) -> None:
    places = [make(clew, "--sessions", "2", TMPDIR=str(tmp_path))["home"] for _ in range(2)]
    assert places[0] != places[1]
    assert all(Path(place).is_relative_to(tmp_path) for place in places)


def test_the_demo_refuses_a_home_that_has_sessions(clew: Run, tmp_path: Path) -> None:
    place = str(tmp_path / "demo")
    before = make(clew, "--home", place, "--sessions", "3")
    again = clew("demo", "--home", place, "--sessions", "3")
    assert again.returncode == 2
    assert "already has sessions" in again.stderr
    listed = json.loads(clew("--home", place, "stats", "--json").stdout)
    assert listed["messages"] == before["messages"]


def test_the_demo_refuses_the_home_of_the_person(clew: Run, own_home: Path) -> None:
    refused = clew("demo", "--home", str(own_home))
    assert refused.returncode == 2
    assert "your own sessions" in refused.stderr
    assert not own_home.exists()


def test_the_demo_stays_out_of_the_store_that_the_environment_names(
    clew: Run, tmp_path: Path
) -> None:
    own_store = tmp_path / "precious.db"
    make(clew, "--home", str(tmp_path / "demo"), "--sessions", "3", CLEW_STORE=str(own_store))
    assert not own_store.exists()


@pytest.mark.parametrize("wrong", [("--sessions", "0"), ("--messages", "-1"), ("--seed", "x")])
def test_wrong_numbers_are_wrong_usage(clew: Run, tmp_path: Path, wrong: tuple[str, str]) -> None:
    refused = clew("demo", "--home", str(tmp_path / "demo"), *wrong)
    assert refused.returncode == 2
    assert not (tmp_path / "demo").exists()


def stories(sessions: int, **options: Any) -> list[Conversation]:
    return list(Corpus(now=NOW, **options).conversations(sessions))


def drafts(conversation: Conversation | Fork) -> list[Any]:
    changes = [change for turn in conversation.turns for change in turn]
    return [change.draft for change in changes if isinstance(change, AddMessage)]


def test_the_same_seed_tells_the_same_stories() -> None:
    assert stories(10, seed=3) == stories(10, seed=3)
    assert stories(10, seed=3) != stories(10, seed=4)


@pytest.mark.parametrize(("sessions", "messages"), [(1, 1), (3, 3), (5, 4), (7, 100), (40, 1_001)])
def test_a_corpus_has_exactly_so_many_messages(sessions: int, messages: int) -> None:
    made = list(Corpus(now=NOW).conversations(sessions, messages))
    told: list[Any] = [*made, *(each.fork for each in made if each.fork is not None)]
    assert len(told) == sessions
    assert sum(len(drafts(each)) for each in told) == messages
    assert all(each.messages == len(drafts(each)) for each in told)


def test_a_fork_leaves_after_a_whole_turn_and_goes_on_later() -> None:
    forked = [(each, each.fork) for each in stories(400) if each.fork is not None]
    assert len(forked) > 5
    for conversation, fork in forked:
        said = drafts(conversation)
        assert 1 <= fork.at <= conversation.messages
        assert fork.at == len(said) or said[fork.at].role == "user"
        assert said[-1].at <= fork.made_at <= NOW
        assert all(fork.made_at <= draft.at <= NOW for draft in drafts(fork))


def test_turns_are_named_as_the_runtime_names_them() -> None:
    turns = [turn for each in stories(20) for turn in each.turns]
    ids = [change.turn_id for turn in turns for change in turn if isinstance(change, StartTurn)]
    assert len(ids) == len(set(ids)) == len(turns)
    assert all(re.fullmatch("[0-9a-f]{16}", turn_id) for turn_id in ids)


def test_stories_lie_in_the_past_and_their_messages_are_in_order() -> None:
    for conversation in stories(200):
        times = [draft.at for draft in drafts(conversation)]
        assert times == sorted(times)
        assert all(at <= NOW for at in times)
        assert conversation.new.created_at is not None
        assert conversation.new.created_at <= times[0]


def test_a_corpus_has_something_of_everything() -> None:
    made = stories(400)
    said = [draft for conversation in made for draft in drafts(conversation)]
    assert {each.new.platform for each in made} == {
        "cli", "telegram", "slack", "web", "discord", "email", "cron"
    }  # fmt: skip
    assert {draft.role for draft in said} == {"user", "assistant", "tool"}
    assert any(each.pinned for each in made)
    assert any(each.archived for each in made)
    assert any(each.fork for each in made)
    assert any(draft.parts for draft in said)
    assert any("```" in draft.content for draft in said)
    assert any(spaceless_tokens(draft.content) for draft in said)
    assert any("größe" in draft.content.lower() for draft in said)
    assert any("база" in draft.content for draft in said)


def test_every_tool_call_has_its_result() -> None:
    for conversation in stories(50):
        said = drafts(conversation)
        calls = [call.id for draft in said for call in draft.tool_calls]
        assert calls == [draft.tool_call_id for draft in said if draft.role == "tool"]


def test_blends_keep_to_their_languages() -> None:
    english = [draft.content for each in stories(30, blend="english") for draft in drafts(each)]
    spaceless = [draft.content for each in stories(30, blend="cjk") for draft in drafts(each)]
    assert all(content.isascii() for content in english)
    assert sum(spaceless_tokens(content) is not None for content in spaceless) > 0.9 * len(
        spaceless
    )
