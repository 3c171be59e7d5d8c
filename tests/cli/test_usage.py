from __future__ import annotations

from clew.core.changes import AddUsage, StartTurn
from clew.core.session import NewSession, Session, SessionFacts
from clew.core.usage import ESTIMATED, Usage
from clew.ports import Store
from tests.cli.conftest import Home

NOON = 1_768_478_400_000  # 2026-01-15 12:00 UTC
ESTIMATE = SessionFacts(metadata={ESTIMATED: True})
BERLIN = "[session]\ntimezone = 'Europe/Berlin'\n"


def spend(home: Home, session: Session, turn: str, usage: Usage, *, at: int, model: str) -> None:
    async def work(store: Store) -> None:
        lease = await store.acquire_lease(session.id, "test")
        start = StartTurn(turn_id=turn, model=model, at=at)
        await store.record(session.id, lease.epoch, start, AddUsage(usage=usage, turn_id=turn))
        await store.release_lease(lease)

    home.store(work)


def fill(home: Home) -> tuple[Session, Session]:
    one, two = home.add("One", "hi"), home.add("Two", "hi", platform="web", kind="web")
    spend(home, one, "a", Usage(100, 10, cost=2_000_000_000, api_calls=1), at=NOON, model="x/big")
    spend(home, two, "b", Usage(50, 5, cost=None, api_calls=1), at=NOON + 60_000, model="x/new")
    late = NOON + 11 * 3_600_000 + 30 * 60_000  # half past eleven at night in UTC
    spend(home, one, "c", Usage(1_000, 1, cost=0, api_calls=2), at=late, model="x/big")
    return one, two


def test_usage_is_summed_by_the_days_of_where_the_person_is(home: Home) -> None:
    fill(home)
    (home.path / "config.toml").write_text(BERLIN)
    days = home.json("usage")
    assert [(each["day"], each["turns"], each["input_tokens"]) for each in days] == [
        ("2026-01-15", 2, 150),
        ("2026-01-16", 1, 1_000),
    ]
    (home.path / "config.toml").write_text(BERLIN.replace("Europe/Berlin", "UTC"))
    assert [each["turns"] for each in home.json("usage")] == [3]


def test_usage_by_model_session_and_platform(home: Home) -> None:
    one, two = fill(home)
    models = home.json("usage", "--by", "model")
    assert [(each["model"], each["cost"]) for each in models] == [
        ("x/big", 2_000_000_000),
        ("x/new", None),
    ]
    sessions = home.json("usage", "--by", "session")
    assert [(each["session"], each["title"]) for each in sessions] == [
        (one.id, "One"),
        (two.id, "Two"),
    ]
    platforms = home.json("usage", "--by", "platform")
    assert {each["platform"]: each["input_tokens"] for each in platforms} == {
        "cli": 1_100,
        "web": 50,
    }


def test_usage_since_a_moment(home: Home) -> None:
    fill(home)
    (home.path / "config.toml").write_text(BERLIN)
    assert [each["day"] for each in home.json("usage", "--since", "2026-01-16")] == ["2026-01-16"]
    assert home.clew("usage", "--since", "1d").stdout == "Nothing was spent yet.\n"
    assert home.clew("usage", "--since", "nonsense").exit_code == 2


def test_a_table_has_a_total_and_an_unknown_cost_is_said_to_be(home: Home) -> None:
    fill(home)
    lines = home.clew("usage", "--by", "model").stdout.splitlines()
    assert lines[0].split() == ["MODEL", "TURNS", "IN", "OUT", "CACHED", "COST"]
    assert lines[1].split() == ["x/big", "2", "1,100", "11", "0", "$2.00"]
    assert lines[2].split() == ["x/new", "1", "50", "5", "0", "unknown"]
    assert lines[3].split() == ["total", "3", "1,150", "16", "0", "unknown"]


def test_what_no_provider_has_counted_is_marked_in_every_table(home: Home) -> None:
    one, two = fill(home)
    home.store(lambda store: store.describe_session(one.id, ESTIMATE))

    models = [line.split() for line in home.clew("usage", "--by", "model").stdout.splitlines()]
    assert models[1] == ["x/big", "2", "~1,100", "~11", "0", "~$2.00"]
    assert models[2] == ["x/new", "1", "50", "5", "0", "unknown"]
    assert models[3] == ["total", "3", "~1,150", "~16", "0", "unknown"]
    assert "~1,150" in home.clew("usage").stdout
    shown = {each["session"]: each["estimated"] for each in home.json("usage", "--by", "session")}
    assert shown == {one.id: True, two.id: False}


def test_the_dearest_sessions_come_first_and_the_rest_is_counted(home: Home) -> None:
    async def fill_up(store: Store) -> None:
        for number in range(103):
            session = await store.create_session(NewSession(key="k", title=f"No {number}"))
            lease = await store.acquire_lease(session.id, "test")
            usage = Usage(1, 1, cost=number * 10_000_000 or None, api_calls=1)
            start, spent = (
                StartTurn(turn_id=f"t{number}"),
                AddUsage(usage=usage, turn_id=f"t{number}"),
            )
            await store.record(session.id, lease.epoch, start, spent)

    home.store(fill_up)
    lines = home.clew("usage", "--by", "session").stdout.splitlines()
    assert lines[1].split()[-3:] == ["$1.02", "No", "102"]
    assert lines[-2].split()[:3] == ["total", "103", "103"]
    assert lines[-1] == "and 3 sessions more; --limit shows more, --json all."
    two = home.clew("usage", "--by", "session", "-n", "2").stdout.splitlines()
    assert (len(two), two[-1][:8]) == (5, "and 101 ")
    titles = [each["title"] for each in home.json("usage", "--by", "session")]
    assert (len(titles), titles[0], titles[-1]) == (103, "No 102", "No 0")
    assert len(home.json("usage", "--by", "session", "--limit", "5")) == 5


def test_a_table_of_sessions_has_short_ids_and_fits_a_terminal(home: Home) -> None:
    one, _ = fill(home)
    lines = home.clew("usage", "--by", "session").stdout.splitlines()
    assert lines[1].split()[0] == one.id[:8]
    assert lines[1].split()[-1] == "One"
    assert max(map(len, lines)) < 80
