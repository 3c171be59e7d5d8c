"""Every reading command, in process and by `--url` at a gateway: same answer, same exit code.

The commands that change something are in `test_changing_both_ways`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from clew.core.changes import AddMessage, AddUsage, EndTurn, StartTurn, UndoTurn
from clew.core.message import Draft, ToolCall
from clew.core.session import NewSession, SessionEdit
from clew.core.usage import Usage
from clew.ports import Store
from clew.testing.clock import FakeClock
from tests.cli.both_ways import BothWays, both_ways
from tests.cli.conftest import Home
from tests.cli.gateways import run_gateway
from tests.cli.test_commands import every_command

LOGIN = "550e8400-e29b-41d4-a716-446655440000"
TRIP = "550e8401-e29b-41d4-a716-446655440001"
HOOK = "98765432-e29b-41d4-a716-446655440002"
OLD = "abcdef01-e29b-41d4-a716-446655440003"
GONE = "12345678-e29b-41d4-a716-446655440004"

CONFIG = """
[models]
allowed = ["anthropic/claude-opus-4-5"]
aliases = { opus = "anthropic/claude-opus-4-5" }
[[agents]]
id = "home"
default = true
[session]
retention_days = 0
trash_days = 0
dm_scope = "per-peer"
identity_links = { alice = ["telegram:123"] }
reset = { mode = "daily", at_hour = 4, idle_minutes = 120 }
reset_triggers = ["/fresh"]
send_policy = { default = "allow", rules = [
  { action = "deny", match = { channel = "discord", chat_type = "group" } }
] }
"""


async def fill(store: Store, clock: FakeClock) -> None:
    """Sessions of all kinds, with fixed ids, and times that are the same in every run."""
    sessions = (
        NewSession(id=LOGIN, key="cli:api", title="Fix the login", cwd="/srv/api"),
        NewSession(id=TRIP, key="cli:trip", title="Plan the trip"),
        NewSession(id=HOOK, key="agent:main:hook:deploys", platform="webhook", kind="hook"),
        NewSession(id=OLD, key="cli:old", title="Old one"),
        NewSession(id=GONE, key="cli:gone", title="Gone"),
    )
    for number, new in enumerate(sessions):
        clock.advance(60_000)
        await store.create_session(new)
        await talk(store, new.id or "", str(number))
    await store.edit_session(OLD, SessionEdit(archived=True))
    await store.edit_session(TRIP, SessionEdit(pinned=True))
    await store.delete_sessions([GONE])


async def talk(store: Store, session_id: str, turn: str) -> None:
    call = ToolCall("c1", "read_file", '{"path": "app.py"}')
    lease = await store.acquire_lease(session_id, "test")
    await store.record(
        session_id,
        lease.epoch,
        StartTurn(turn_id=f"done{turn}"),
        AddMessage(Draft(role="user", content="Why is the login slow?"), f"done{turn}"),
        AddMessage(Draft(role="assistant", content="", tool_calls=(call,)), f"done{turn}"),
        AddMessage(
            Draft(role="tool", tool_call_id="c1", tool_name="read_file", content="1\n" * 9),
            f"done{turn}",
        ),
        AddMessage(Draft(role="assistant", content="A **redirect**.", model="m"), f"done{turn}"),
        AddUsage(usage=Usage(7, 5, cost=9_000_000), turn_id=f"done{turn}"),
        EndTurn(turn_id=f"done{turn}", status="done"),
        StartTurn(turn_id=f"undone{turn}"),
        AddMessage(Draft(role="user", content="Never mind."), f"undone{turn}"),
        EndTurn(turn_id=f"undone{turn}", status="done"),
        UndoTurn(f"undone{turn}"),
        StartTurn(turn_id=f"cut{turn}"),
        AddMessage(Draft(role="user", content="And the logout?"), f"cut{turn}"),
        EndTurn(turn_id=f"cut{turn}", status="aborted", partial="It is"),
    )
    await store.release_lease(lease)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    scratch = tmp_path_factory.mktemp("ways")
    home, clock = Home(scratch / "home"), FakeClock()
    home.path.mkdir()
    (home.path / "config.toml").write_text(CONFIG, encoding="utf-8")
    home.store(lambda store: fill(store, clock), clock=clock)
    with both_ways(home, scratch) as made:
        yield made


READING = [
    ["list"],
    ["list", "-n", "1"],
    ["list", "-n", "0"],
    ["list", "--all"],
    ["list", "--platform", "webhook"],
    ["list", "--here"],
    ["list", "--archived"],
    ["list", "--cursor", "nonsense"],
    ["sessions"],
    ["show", LOGIN],
    ["show", "98765432"],
    ["show", "plan the trip", "-n", "2"],
    ["show", "agent:main:hook:deploys"],
    ["show", "550e"],
    ["show", "55"],
    ["show", "login"],
    ["show", "Gone"],
    ["show", "nothing"],
    ["show", LOGIN, "--undone"],
    ["show", LOGIN, "-n", "0"],
    ["search", "login"],
    ["search", "redirect", "--session", "cli:api"],
    ["search", "login", "--role", "user", "--since", "2020-01-01", "--until", "2027-01-01"],
    ["search", "login", "--since", "1960-01-01", "--until", "1970-01-02"],
    ["search", "login", "-n", "1"],
    ["search", "login", "-n", "0"],
    ["search", "nowhere"],
    ["search", "login", "--session", "nothing"],
    ["search", ""],
    ["stats"],
    ["usage"],
    ["usage", "--by", "model"],
    ["usage", "--by", "session"],
    ["usage", "--by", "session", "-n", "2"],
    ["usage", "--by", "platform", "--since", "2026-01-01"],
    ["export", LOGIN, "-o", "-"],
    ["export", LOGIN, "-o", "-", "--format", "jsonl"],
    ["export", LOGIN, "-o", "-", "--format", "html", "--thinking", "--no-redact"],
    ["export", "nothing", "-o", "-"],
    ["explain", "route", "--channel", "telegram", "--peer", "dm:123"],
    ["explain", "route", "--channel", "telegram", "--peer", "42"],
    ["explain", "reset", "--key", "agent:home:main", "--updated-at", "2026-03-09T23:00",
     "--now", "2026-03-10T08:00"],
    ["explain", "reset", "--key", "x", "--updated-at", "yesterday"],
    ["explain", "reset", "--key", "x", "--updated-at", "2026-03-09", "--timezone", "Mars/Base"],
    ["explain", "send", "--key", "agent:main:discord:group:5"],
    ["explain", "trigger", "--text", "/fresh opus fix it"],
    ["explain", "resume", "550e"],
    ["explain", "resume", "login"],
    ["explain", "resume", "Gone"],
    ["explain", "resume", "talk.jsonl"],
    ["explain", "resume", f"session-{LOGIN}.jsonl"],
    ["explain", "resume"],
    ["explain", "resume", "--key", "cli:api"],
    ["explain", "resume", "--continue"],
]  # fmt: skip


@pytest.mark.parametrize("args", READING, ids=" ".join)
def test_a_reading_command_answers_the_same_in_both_ways(
    ways: BothWays, args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ways.same(*args)
    # How well a message fits depends on its age, and so on the moment of the search.
    ways.same(*args, "--json", masks=(r'"score":[0-9.]+', r'"cursor":"[^"]*"'))


PLACE = (r"^(store|config|gateway) .*$", r'"(path|url|config|file|pid|started_at)":("[^"]*"|\d+)')


def test_the_status_is_the_same_but_for_the_place(ways: BothWays) -> None:
    told = ways.same("status", masks=(*PLACE, r"^durability .*$\n"))
    assert f"gateway     {ways.gateway.url} since " in told.stdout
    here = msgspec.json.decode(ways.run("status", "--json", way="in_process").stdout)
    there = msgspec.json.decode(ways.run("status", "--json", way="at_a_gateway").stdout)
    assert here.keys() == there.keys()
    assert here["recent"] == there["recent"]
    assert here["store"].keys() == there["store"].keys()
    assert there["store"]["path"] == str(ways.gateway.home.path / "sessions.db")
    assert there["gateway"]["pid"] == ways.gateway.process.pid


def test_days_are_those_of_the_caller_and_not_of_the_gateway(ways: BothWays) -> None:
    # Noon of 1 May in Greenwich: 2 May in Kiritimati, whatever is the date at the gateway.
    for zone, day in (("Pacific/Kiritimati", "2026-05-02"), ("UTC", "2026-05-01")):
        env = {"CLEW_SESSION_TIMEZONE": zone}
        (row,) = msgspec.json.decode(ways.same("usage", "--json", env=env).stdout)
        assert row["day"] == day


def test_the_days_of_a_host_without_a_configured_zone_are_its_own(ways: BothWays) -> None:
    env = {"TZ": "Pacific/Kiritimati", "CLEW_SESSION_TIMEZONE": ""}
    told = ways.run("usage", "--json", way="at_a_gateway", env=env)
    (row,) = msgspec.json.decode(told.stdout)
    assert row["day"] == "2026-05-02"


def test_an_export_is_written_where_the_caller_is(ways: BothWays, tmp_path: Path) -> None:
    written = []
    for way in ("in_process", "at_a_gateway"):
        file = tmp_path / f"{way}.md"
        assert ways.run("export", LOGIN, "-o", str(file), way=way).exit_code == 0
        written.append(file.read_text(encoding="utf-8"))
        assert ways.run("export", LOGIN, "-o", str(file), way=way).exit_code == 1
    assert written[0] == written[1]


def test_the_environment_names_a_gateway_too(ways: BothWays) -> None:
    env = {"CLEW_URL": ways.gateway.url, "CLEW_TOKEN": ways.gateway.token}
    assert "Fix the login" in ways.caller.clew("list", env=env).stdout
    assert "No sessions yet" in ways.caller.clew("list").stdout


def test_a_token_comes_from_the_environment_or_a_file(ways: BothWays) -> None:
    listing = ["list", "--url", ways.gateway.url, "--token"]
    assert ways.caller.clew(*listing, "env:WORK", env={"WORK": ways.gateway.token}).exit_code == 0
    assert ways.caller.clew(*listing, f"file:{ways.gateway.token_file}").exit_code == 0
    assert ways.caller.clew(*listing, "env:NOTHING").exit_code == 2
    refused = ways.caller.clew(*listing, "wrong")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert ways.caller.clew("list", "--token", "x").exit_code == 2


def test_completion_asks_the_gateway_that_is_named(ways: BothWays) -> None:
    env = {
        "CLEW_URL": ways.gateway.url, "CLEW_TOKEN": ways.gateway.token,
        "_CLEW_COMPLETE": "bash_complete", "COMP_WORDS": "clew show 550", "COMP_CWORD": "2",
    }  # fmt: skip
    assert ways.caller.clew(env=env).stdout.split() == ["plain,550e8401", "plain,550e8400"]


def test_a_guest_sees_only_their_own(home: Home, tmp_path: Path) -> None:
    home.add("Mine", "the login")
    home.add("Theirs", "the login", person="telegram:5", key="agent:main:telegram:dm:5")
    with run_gateway(home) as gateway:
        made = home.json(
            "token", "create", "--name", "g", "--scope", "read", "--person", "telegram:5"
        )
        guest, to = Home(tmp_path / "guest"), ["--url", gateway.url, "--token", made["secret"]]
        listed = guest.clew("list", *to).stdout
        assert ("Theirs" in listed, "Mine" in listed) == (True, False)
        assert guest.clew("show", "Mine", *to).exit_code == 1
        assert "Mine" not in guest.clew("search", "login", *to).stdout
        status = guest.clew("status", *to)
        assert (status.exit_code, "store" in status.stdout) == (0, False)
        for command in (["stats"], ["usage"], ["explain", "resume"]):
            refused = guest.clew(*command, *to)
            assert (refused.exit_code, "Only the owner" in refused.stderr) == (1, True)


ONLY_HERE = [
    ["backup", "x.db"],
    ["restore", "x.db"],
    ["doctor"],
    ["store", "copy", "a", "b"],
    ["config", "show"],
    ["config", "set", "model", "x"],
    ["config", "unset", "model"],
    ["config", "edit"],
    ["config", "path"],
    ["serve"],
    ["model", "list"],
    ["model", "pull"],
    ["model", "test"],
    ["model", "set", "x"],
    ["demo"],
    ["desktop"],
    ["plugins"],
    ["logs"],
    ["service", "install"],
    ["service", "uninstall"],
    ["service", "start"],
    ["service", "stop"],
    ["service", "status"],
    ["service", "logs"],
    ["channels", "list"],
    ["channels", "add", "telegram"],
    ["channels", "remove", "telegram"],
    ["channels", "test", "telegram"],
]


@pytest.mark.parametrize("args", ONLY_HERE, ids=" ".join)
def test_what_works_on_this_machine_s_files_says_so_at_a_gateway(
    home: Home, args: list[str]
) -> None:
    for to, env in (
        (["--url", "http://127.0.0.1:9"], {}),
        ([], {"CLEW_URL": "http://127.0.0.1:9"}),
    ):
        result = home.clew(*args, *to, env=env)
        assert result.exit_code == 2
        assert "works on the files of this machine, not at a gateway" in result.stderr
    assert not home.path.exists()


CHANGING = {
    "rename", "pin", "archive", "fork", "link", "delete", "undo", "trash list", "trash restore",
    "trash empty", "prune", "import", "memory show", "memory edit", "memory diff", "memory log",
    "memory restore", "memory search", "memory path", "personality list", "personality show",
    "pair list", "pair approve", "pair refuse", "token create", "token list", "token revoke",
    "cron add", "cron list", "cron run", "cron remove",
}  # fmt: skip
"""Commands of `test_changing_both_ways`."""

CONVERSING = {"chat", "pick", "ask", "status", "mcp"}
"""Compared by tests of their own: what they print is no one text."""

ASKING = {"setup"}
"""Without a person it says that first; here nobody is at the terminal."""

BESIDE_BOTH = {"upgrade"}
"""It looks at how clew was installed, wherever the sessions are (`test_upgrade`)."""

OF_A_GATEWAY = {"gateway call", "gateway drain", "gateway reload", "node run"}
"""They have only one way."""


def test_each_command_that_takes_a_gateway_is_tried_at_one() -> None:
    takers = {
        " ".join(path)
        for path, command in every_command()
        if any("--url" in parameter.opts for parameter in command.params)
    }
    listed = {" ".join(args[:words]) for args in (*READING, *ONLY_HERE) for words in (1, 2)}
    tried = CHANGING | CONVERSING | ASKING | BESIDE_BOTH | OF_A_GATEWAY

    assert sorted(takers - listed - tried) == []
    assert sorted(tried - takers) == []
