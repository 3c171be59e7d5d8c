from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from clew.core.session import Session
from tests.cli.conftest import Home
from tests.cli.screens import Terminal
from tests.forks import run_clew
from tests.transfer.worst import worst_file


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory where the person is."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def session(home: Home) -> Session:
    return home.add("Talk", *(f"message {number}" for number in range(6)))


@pytest.fixture
def other(tmp_path: Path) -> Home:
    """Another computer."""
    return Home(tmp_path / "other")


@pytest.fixture
def lines(home: Home, session: Session) -> list[str]:
    """The transcript: the session, six messages, the end."""
    assert home.clew("export", session.id, "-o", "talk.jsonl").exit_code == 0
    return Path("talk.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)


def run(home: Home, *args: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The real command line, with something on standard input."""
    return run_clew(args, env={**os.environ, "CLEW_HOME": str(home.path)}, given=given)


# --- export -----------------------------------------------------------------------------------


def test_an_export_is_a_private_file_in_this_directory(home: Home, session: Session) -> None:
    result = home.clew("export", "talk")
    file = Path(f"session-{session.id}.md")
    assert (result.exit_code, result.stdout) == (0, f"The session is now in {file}.\n")
    assert "message 5" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("args", "kind", "begins"),
    [
        (("-o", "x.md"), "md", "# Talk"),
        (("-o", "x.html"), "html", "<!doctype html>"),
        (("-o", "x.jsonl"), "jsonl", '{"type":"session"'),
        (("-o", "x.txt", "--format", "md"), "md", "# Talk"),
        (("-o", "x"), "md", "# Talk"),
    ],
)
def test_the_ending_decides_unless_a_format_is_named(
    home: Home, session: Session, args: tuple[str, ...], kind: str, begins: str
) -> None:
    said = home.json("export", session.id, *args)
    assert said == {"session": session.id, "file": args[1], "format": kind}
    assert Path(args[1]).read_text(encoding="utf-8").lower().startswith(begins.lower())


@pytest.mark.parametrize(
    ("folder", "kind"), [("out", "md"), ("out/", "html"), ("out.d", "jsonl"), (".", "md")]
)
def test_into_a_directory_it_goes_under_its_own_name(
    home: Home, session: Session, folder: str, kind: str
) -> None:
    Path(folder).mkdir(exist_ok=True)
    chosen = [] if kind == "md" else ["--format", kind]
    result = home.clew("export", session.id, "-o", folder, *chosen)
    assert result.exit_code == 0, result.stderr
    assert (Path(folder) / f"session-{session.id}.{kind}").exists()


@pytest.mark.parametrize(("output", "code"), [("nope/", 1), ("nope/x.md", 1), ("x.pdf", 2)])
def test_where_nothing_can_be_written_is_named(
    home: Home, session: Session, output: str, code: int
) -> None:
    result = home.clew("export", session.id, "-o", output)
    assert result.exit_code == code
    assert output.replace("x.pdf", ".pdf") in result.stderr
    assert list(Path().iterdir()) == []


def test_a_file_is_written_over_only_with_force(home: Home, session: Session) -> None:
    Path("x.md").write_text("precious", encoding="utf-8")
    refused = home.clew("export", session.id, "-o", "x.md")
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert Path("x.md").read_text(encoding="utf-8") == "precious"
    assert home.clew("export", session.id, "-o", "x.md", "--force").exit_code == 0


def test_a_session_that_is_not_there_is_code_1_and_wrong_usage_2(home: Home) -> None:
    assert home.clew("export", "nope").exit_code == 1
    assert home.clew("export").exit_code == 2
    assert home.clew("export", "x", "--format", "pdf").exit_code == 2


def test_a_session_goes_through_a_pipe(home: Home, session: Session, other: Home) -> None:
    sent = run(home, "export", "talk", "--format", "jsonl", "-o", "-")
    assert (sent.returncode, sent.stderr) == (0, b"")
    received = run(other, "import", "-", given=sent.stdout)
    assert (received.returncode, received.stderr) == (0, b"")
    assert received.stdout.decode() == f"Session {session.id} imported, 6 messages.\n"


# --- import -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("lines")
def test_importing_twice_changes_nothing(other: Home, session: Session) -> None:
    first, second = other.json("import", "talk.jsonl"), other.json("import", "talk.jsonl")
    assert (first["session_id"], first["outcome"], first["messages"]) == (session.id, "created", 6)
    assert (second["outcome"], second["messages"]) == ("unchanged", 0)


@pytest.mark.usefixtures("lines")
def test_a_dry_run_changes_nothing(other: Home) -> None:
    result = other.clew("import", "talk.jsonl", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.startswith("Dry run: Session ")
    assert other.json("list")["sessions"] == []


@pytest.mark.usefixtures("lines")
def test_as_new_makes_a_session_of_its_own(home: Home, session: Session) -> None:
    assert home.json("import", "--as-new", "talk.jsonl")["session_id"] != session.id
    assert len(home.json("list")["sessions"]) == 2


def test_the_end_of_a_file_that_was_cut_off_comes_with_the_whole_one(
    other: Home, session: Session, lines: list[str]
) -> None:
    Path("cut.jsonl").write_text("".join(lines[:5]) + lines[5][:40], encoding="utf-8")
    result = other.clew("import", "cut.jsonl")
    assert result.exit_code == 1
    assert "A complete file adds those at the end." in result.stderr
    whole = other.clew("import", "talk.jsonl")
    assert whole.exit_code == 0
    assert whole.stdout == f"Session {session.id} continued with 3 messages.\n"


def test_what_is_advised_for_a_damaged_line_works(
    other: Home, session: Session, lines: list[str]
) -> None:
    lines[3] = "garbage\n"
    Path("bad.jsonl").write_text("".join(lines), encoding="utf-8")
    result = other.clew("import", "bad.jsonl")
    assert result.exit_code == 1
    assert "imported, 5 messages" in result.stdout
    assert "was left out: line 4." in result.stderr
    assert f"`clew delete --now {session.id}`" in result.stderr
    refused = other.clew("import", "talk.jsonl")
    assert refused.exit_code == 1
    assert "differs from message 3 on" in refused.stderr
    assert other.clew("delete", "--now", session.id).exit_code == 0
    assert "imported, 6 messages" in other.clew("import", "talk.jsonl").stdout


def test_a_damaged_session_of_its_own_is_to_be_deleted(other: Home, lines: list[str]) -> None:
    lines[3] = "garbage\n"
    Path("bad.jsonl").write_text("".join(lines), encoding="utf-8")
    result = other.clew("import", "--as-new", "bad.jsonl")
    (made,) = other.json("list")["sessions"]
    assert f"`clew delete {made['id']}`" in result.stderr
    advised = other.clew("import", "--dry-run", "--as-new", "bad.jsonl").stderr
    assert "clew delete" not in advised


def test_a_damaged_line_that_is_no_message_costs_no_message(other: Home, lines: list[str]) -> None:
    lines.insert(1, "garbage\n")
    lines[-1] = lines[-1].replace('"lines":7', '"lines":8')
    Path("bad.jsonl").write_text("".join(lines), encoding="utf-8")
    result = other.clew("import", "bad.jsonl")
    assert result.exit_code == 1
    assert result.stderr == "Could not be read and was left out: line 2.\n"


def test_a_session_that_differs_or_is_in_the_trash_is_left_alone(
    home: Home, session: Session, lines: list[str]
) -> None:
    lines[2] = lines[2].replace("message 1", "something else")
    Path("other.jsonl").write_text("".join(lines), encoding="utf-8")
    result = home.clew("import", "other.jsonl", "--json")
    assert result.exit_code == 1
    assert msgspec.json.decode(result.stderr)["error"] == "diverged"
    home.clew("delete", session.id)
    refused = home.clew("import", "talk.jsonl")
    assert refused.exit_code == 1
    assert "clew trash restore" in refused.stderr


def test_what_is_no_transcript_is_named(home: Home) -> None:
    Path("x.jsonl").write_text("hello\n", encoding="utf-8")
    result = home.clew("import", "x.jsonl")
    assert result.exit_code == 1
    assert "not a clew transcript" in result.stderr
    for file in ("nope.jsonl", "."):
        result = home.clew("import", file)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"clew: {file} can't be read: ")
    assert home.clew("import", "--nonsense").exit_code == 2


# --- what a file may bring --------------------------------------------------------------------


@pytest.fixture
def worst(home: Home, place: Path) -> Path:
    """A file that gives itself every right; the next answer of the model is a shell command."""
    there = home.add("There", "hello")
    file = place / "worst.jsonl"
    file.write_bytes(b"".join(worst_file(WORST, there=there, turn="t")))
    call = {"tool_calls": [{"name": "shell", "arguments": {"command": "touch pwned"}}]}
    home.script(rules=[{"when": "please", "answers": [call, "done"]}])
    return file


WORST = "11111111-2222-4333-8444-555555555555"


@pytest.mark.parametrize("trust", [(), ("--trust", "--yes")])
def test_an_imported_session_runs_no_command_unasked(
    home: Home, worst: Path, place: Path, trust: tuple[str, ...]
) -> None:
    result = home.clew("import", *trust, "--cwd", str(place), str(worst))
    assert result.exit_code == 0, result.output
    asked = home.ask("--resume", WORST, "please")
    assert "done" in asked.stdout, asked.output
    assert not (place / "pwned").exists()
    (refused,) = [each for each in home.json("show", WORST)["messages"] if each["role"] == "tool"]
    assert "can't be asked here" in refused["content"]


def test_resuming_a_file_gives_it_this_directory_and_no_rights(
    home: Home, worst: Path, place: Path
) -> None:
    result = home.chat("please", args=["-r", str(worst)])
    assert "done" in result.stdout, result.output
    assert not (place / "pwned").exists()
    session = home.json("show", WORST)["session"]
    assert session["cwd"] == str(place)
    assert "allow" not in session["metadata"]
    assert session["person"] == "owner"


def test_rules_that_end_are_named(home: Home, place: Path) -> None:
    session = home.add("Mine", "one", metadata={"allow": ["shell"]})
    assert home.clew("export", session.id, "-o", "talk.jsonl").exit_code == 0
    first, one, end = (place / "talk.jsonl").read_text(encoding="utf-8").splitlines()
    two = one.replace('"one"', '"two"').replace('"seq":1', '"seq":2')
    (place / "talk.jsonl").write_text(f"{first}\n{one}\n{two}\n{end}", encoding="utf-8")
    result = home.clew("import", "talk.jsonl")
    assert "asked about again: shell." in result.stderr


@pytest.mark.usefixtures("lines")
def test_a_directory_is_given_with_cwd(other: Home, session: Session, place: Path) -> None:
    (place / "work").mkdir()
    assert other.clew("import", "--cwd", "work", "talk.jsonl").exit_code == 0
    assert other.json("show", session.id)["session"]["cwd"] == str(place / "work")


@pytest.mark.usefixtures("lines")
def test_a_directory_that_is_not_there_is_refused(other: Home) -> None:
    result = other.clew("import", "--cwd", "nowhere", "talk.jsonl")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    assert other.json("list")["sessions"] == []


def test_trust_is_asked_about_and_refused_without_a_terminal(home: Home, worst: Path) -> None:
    result = home.clew("import", "--trust", str(worst))
    assert result.exit_code == 2
    assert 'directory /, personality "evil", thinking "high"' in result.stderr
    assert "use --yes" in result.stderr
    assert home.clew("show", WORST).exit_code == 1


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_trust_is_a_persons_word(home: Home, worst: Path, answer: str, code: int) -> None:
    terminal = Terminal(home, "import", "--trust", str(worst))
    terminal.wait_for("do you want to keep that? [y/N] ")
    terminal.type(f"{answer}\n")
    assert terminal.finish() == 0
    assert home.clew("show", WORST).exit_code == code
    if code == 0:
        assert home.json("show", WORST)["session"]["personality"] == "evil"


def test_a_gateway_trusts_no_file(home: Home, worst: Path) -> None:
    result = home.clew("import", "--trust", "--yes", "--url", "http://127.0.0.1:9", str(worst))
    assert result.exit_code == 2
    assert "no gateway trusts a file" in result.stderr


def test_a_file_that_says_no_more_than_its_thread_needs_no_trust(
    other: Home, lines: list[str]
) -> None:
    fields = msgspec.json.decode(lines[0])
    fields["session"]["cwd"] = None
    Path("bare.jsonl").write_bytes(
        msgspec.json.encode(fields) + b"\n" + "".join(lines[1:]).encode()
    )
    assert other.clew("import", "--trust", "bare.jsonl").exit_code == 0
