"""`clew import` of other agents' histories, and what can be done with them then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Home
from tests.patience import PATIENCE
from tests.transfer.samples.claude_code import CLAUDE_CODE
from tests.transfer.samples.codex import CODEX
from tests.transfer.samples.documents import AIDER, CHATGPT
from tests.transfer.samples.talk import LONGER, REWOUND, WHOLE, Talk


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a person who used Claude Code and Codex."""
    folder = tmp_path / "person"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "PI_CODING_AGENT_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


def test_a_scan_lists_what_is_there_and_imports_nothing(home: Home, person: Path) -> None:
    CLAUDE_CODE.write(person, WHOLE)
    CODEX.write(person, WHOLE)
    AIDER.write(person, WHOLE)
    result = home.clew("import", "--scan")
    assert result.exit_code == 0
    rows = [line.split()[:3] for line in result.stdout.splitlines()]
    assert rows == [["AGENT", "SESSIONS", "NEW"], ["claude-code", "1", "1"], ["codex", "1", "1"]]
    assert "clew import --from claude-code" in result.stderr
    assert json.loads(home.clew("--json", "list").stdout)["sessions"] == []


def test_without_a_source_it_says_what_there_is(home: Home, person: Path) -> None:
    assert "No histories" in home.clew("import").stdout
    CODEX.write(person, WHOLE)
    assert "codex" in home.clew("import").stdout


def test_a_history_is_imported_listed_searched_and_shown(home: Home, person: Path) -> None:
    CLAUDE_CODE.write(person, WHOLE)
    dry = home.clew("import", "--from", "claude-code", "--dry-run")
    assert dry.stdout == "Dry run: 1 session: 1 new. An import would bring 8 new messages.\n"
    assert (
        home.clew("import", "--from", "claude-code").stdout == "1 session: 1 new. 8 new messages.\n"
    )
    again = home.clew("import", "--from", "claude-code")
    assert again.stdout == "1 session: 1 unchanged. 0 new messages.\n"
    CLAUDE_CODE.write(person, LONGER)
    more = home.clew("import", "--from", "claude-code")
    assert more.stdout == "1 session: 1 continued. 2 new messages.\n"

    assert "Notes and milk" in home.clew("list").stdout
    assert "Notes and milk" in home.clew("search", "milk").stdout
    shown = home.clew("show", WHOLE.native).stdout
    assert "claude-code" in shown
    assert "/home/me/notes" in shown
    assert "buy milk" in shown


def test_the_report_says_what_was_left_out(home: Home, person: Path) -> None:
    path = CODEX.write(person, REWOUND)
    with path.open("ab") as file:
        file.write(b'{"half\n')
    result = home.clew("import", "--all")
    assert "1 instructions of the program" in result.stderr
    assert "left out: 1 line" in result.stderr
    assert "--branches" in result.stderr
    value = json.loads(home.clew("--json", "import", "--all", "--branches").stdout)
    assert value["totals"]["outcomes"] == {"forked": 1}
    assert value["sessions"][0]["agent"] == "codex"


def test_a_named_path_is_guessed_and_an_unknown_one_refused(home: Home, person: Path) -> None:
    chats = CHATGPT.write(person, WHOLE)
    assert "1 new" in home.clew("import", str(chats)).stdout
    assert "1 new" in home.clew("import", str(AIDER.write(person, WHOLE))).stdout
    (person / "other.txt").write_text("hello", encoding="utf-8")
    refused = home.clew("import", "other.txt")
    assert refused.exit_code != 0
    assert "not a clew transcript" in refused.stderr
    assert "no file or directory" in home.clew("import", "--from", "codex", "gone").stderr
    assert "claude-code" in home.clew("import", "--from", "nobody").stderr


def test_since_leaves_older_sessions_out(home: Home, person: Path) -> None:
    old = CLAUDE_CODE.write(person, WHOLE)
    os.utime(old, (1_000_000_000, 1_000_000_000))
    CLAUDE_CODE.write(person, Talk(WHOLE.exchanges, native="0a2a4c1e-8f7b-4c57-9d62-1b8a3f0e5a11"))
    assert "1 session: 1 new" in home.clew("import", "--all", "--since", "30d").stdout


@pytest.mark.parametrize(
    "args",
    [("--from", "codex", "--trust"), ("--all", "--as-new"), ("--scan", "--cwd", "."),
     ("--all", "--url", "http://127.0.0.1:1"), ("--from", "clew")],
)  # fmt: skip
def test_options_that_mean_nothing_for_histories_are_refused(
    home: Home, person: Path, args: tuple[str, ...]
) -> None:
    CODEX.write(person, WHOLE)
    assert home.clew("import", *args).exit_code == 2


def test_a_thread_of_another_agent_is_taken_up(home: Home, person: Path) -> None:
    CLAUDE_CODE.write(person, WHOLE)
    home.script("Gladly.")
    home.clew("import", "--all")
    result = home.chat("Go on, please.", args=("-r", WHOLE.native))
    assert result.exit_code == 0, result.stderr
    assert "Gladly." in result.stdout
    (session,) = json.loads(home.clew("--json", "list").stdout)["sessions"]
    assert (session["platform"], session["message_count"]) == ("claude-code", 10)
    # What is added there from now on is a branch of its own.
    CLAUDE_CODE.write(person, LONGER)
    assert "1 forked" in home.clew("import", "--all").stdout


@pytest.mark.parametrize(
    ("agent", "word"), [("claude-code", "claude --resume"), ("codex", "codex resume")]
)
def test_a_session_is_written_where_another_agent_finds_it(
    home: Home, person: Path, agent: str, word: str
) -> None:
    session = home.add("Talk", "hello", "hi")
    result = home.clew("export", session.id, "--to", agent)
    assert result.exit_code == 0, result.stderr
    assert f"{word} {session.id}" in result.stdout
    (found,) = json.loads(home.clew("--json", "import", "--scan").stdout)
    assert (found["agent"], found["sessions"]) == (agent, 1)
    assert home.clew("export", session.id, "--to", agent).exit_code != 0  # it is there
    assert home.clew("export", session.id, "--to", agent, "--force").exit_code == 0
    assert "1 unchanged" in home.clew("import", "--all").stdout
    assert home.clew("export", session.id, "--to", agent, "-o", "-").stdout.startswith("{")
    assert home.clew("export", session.id, "--to", agent, "--format", "md").exit_code == 2


def test_a_person_is_told_once_about_histories(home: Home, person: Path) -> None:
    CLAUDE_CODE.write(person, WHOLE)
    home.script("Hi.", "Hi again.")
    told = "Claude Code has 1 session here: `clew import --scan`"
    assert told in home.chat("hello").stderr
    assert told not in home.chat("hello").stderr


def test_an_import_that_is_stopped_goes_on_later(home: Home, person: Path) -> None:
    for number in range(40):
        native = f"{number:08x}-8f7b-4c57-9d62-1b8a3f0e5a10"
        CLAUDE_CODE.write(person, Talk(LONGER.exchanges * 20, native=native))
    env = {**os.environ, "CLEW_HOME": str(home.path)}
    program = [sys.executable, "-m", "clew", "import", "--all"]
    with subprocess.Popen(program, env=env, stdout=subprocess.PIPE, text=True) as importing:
        while json.loads(home.clew("--json", "list", "--all").stdout)["sessions"] == []:
            assert importing.poll() is None
        importing.send_signal(signal.SIGINT)
        said, _ = importing.communicate(timeout=PATIENCE)
    assert importing.returncode in (0, 130)
    assert said.startswith("Stopped." if importing.returncode else "40 sessions")
    assert home.clew("import", "--all").exit_code == 0
    value = json.loads(home.clew("--json", "import", "--all").stdout)
    assert value["totals"]["outcomes"] == {"unchanged": 40}
