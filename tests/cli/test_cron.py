"""`clew cron`: jobs, added, listed, run and removed; and run by a gateway."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec
import pytest

from clew.ports import Store
from tests.cli.conftest import Home
from tests.cli.gateways import run_gateway
from tests.patience import PATIENCE

EVERY = ("cron", "add", "news", "every 2h", "What", "is new?")


def test_a_job_is_added_listed_and_removed(home: Home) -> None:
    result = home.clew(*EVERY, "--deliver-to", "telegram:123", "--session", "fixed")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith('Added "news"; it is due ')

    (job,) = home.json("cron", "list")["jobs"]
    assert (job["name"], job["schedule"], job["text"]) == ("news", "every 2h", "What is new?")
    assert (job["session"], job["deliver_to"]) == ("fixed", "telegram:123")
    assert job["key"] == "agent:main:cron:news"
    assert abs(job["due_at"] - time.time() * 1000 - 7_200_000) < 60_000
    listed = home.clew("cron", "list").stdout
    assert "NAME" in listed
    assert "every 2h" in listed

    assert home.json("cron", "remove", "NEWS")["name"] == "news"
    assert "There are no jobs" in home.clew("cron", "list").stdout


def test_a_schedule_means_the_zone_that_is_told(home: Home) -> None:
    job = home.json("cron", "add", "tokyo", "0 8 * * *", "Good morning", "--timezone", "Asia/Tokyo")

    due = datetime.fromtimestamp(job["due_at"] / 1000, UTC)
    assert (due.hour, due.minute) == (23, 0)


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("cron", "add", "a b", "@daily", "x"), 2, "name"),
        (("cron", "add", "a", "whenever", "x"), 2, "not a schedule"),
        (("cron", "add", "a", "0 0 31 2 *", "x"), 2, "never due"),
        (("cron", "add", "a", "@daily", " "), 2, "what the agent is asked"),
        (("cron", "add", "a", "@daily", "x", "--deliver-to", "nowhere"), 2, "not a place"),
        (("cron", "add", "a", "@daily", "x", "--timezone", "Mars/Base"), 2, "time zone"),
        (("cron", "add", "a", "@daily", "x", "--timezone", "../../etc/passwd"), 2, "time zone"),
        (("cron", "remove", "a"), 1, "No job"),
        (("cron", "run", "a"), 1, "No job"),
    ],
)
def test_what_can_not_be_is_told(home: Home, args: tuple[str, ...], code: int, word: str) -> None:
    result = home.clew(*args)

    assert (result.exit_code, word in result.stderr) == (code, True), result.stderr
    assert home.json("cron", "list") == {"jobs": []}


def test_a_name_is_given_once(home: Home) -> None:
    assert home.clew(*EVERY).exit_code == 0
    result = home.clew(*EVERY)

    assert result.exit_code == 1
    assert "clew cron remove" in result.stderr


def test_a_job_is_run_by_hand_and_its_next_time_stays(home: Home) -> None:
    home.script("Nothing is new.")
    due = home.json(*EVERY, "--deliver-to", "telegram:123")["due_at"]

    result = home.clew("cron", "run", "news")
    assert (result.exit_code, result.stdout) == (0, "Nothing is new.\n"), result.stderr

    (job,) = home.json("cron", "list")["jobs"]
    assert job["due_at"] == due
    assert job["last_run_at"] is not None

    async def look(store: Store) -> tuple[str, str]:
        (row,) = await store.list_outbound()
        return row.channel, row.content

    assert home.store(look) == ("telegram", "Nothing is new.")


def test_a_run_that_fails_says_so(home: Home) -> None:
    home.script({"error": 401})
    home.clew(*EVERY)

    result = home.clew("cron", "run", "news", "--json")

    assert result.exit_code == 1
    assert msgspec.json.decode(result.stdout)["status"] == "failed"


def test_a_gateway_runs_what_was_missed_once(home: Home) -> None:
    home.script("Nothing is new.")
    home.clew(*EVERY)
    path = home.path / "cron.json"
    document = msgspec.json.decode(path.read_bytes())
    document["jobs"][0]["due_at"] -= 10 * 7_200_000
    path.write_bytes(msgspec.json.encode(document))

    with run_gateway(home):
        deadline = time.monotonic() + PATIENCE
        while not home.json("cron", "list")["jobs"][0]["last_run_at"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    async def look(store: Store) -> list[str]:
        session = await store.find_route("agent:main:cron:news")
        assert session is not None
        assert (await store.stats()).sessions == 1
        return [each.content for each in await store.get_messages(session.id)]

    assert home.store(look) == ["What is new?", "Nothing is new."]
    (job,) = home.json("cron", "list")["jobs"]
    assert job["due_at"] > job["last_run_at"]
