"""How SQLite goes about what a gateway asks of boxes and lists: along an index, by no scan."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from clew.core.session import ListedState, SessionFilter
from clew.store.sqlite.engine import DIALECT, spell
from clew.store.sqlite.schema import apply, shipped_migrations
from clew.store.work import delivery
from clew.store.work.listing import CANDIDATES, FACETS, facet_queries, list_query
from clew.store.work.log import EXTERNALS

PLANS = [
    (delivery.CLAIM_ANY_INBOUND, "inbox_queued"),
    (delivery.CLAIM_SOME_INBOUND, "inbox_open"),
    (delivery.RELEASE, "inbox_claimed"),
    (delivery.FIND_SETTLED, "inbox_settled"),
    (delivery.list_inbound_query("s", None, 10)[0], "inbox_open"),
    (delivery.list_inbound_query("s", "k", 10)[0], "inbox_key"),
    (delivery.list_inbound_query(None, None, 10)[0], "inbox_key"),
    (delivery.DUE_AT_PLACE, "outbox_due"),
    (delivery.DUE_AT_PLACE, "outbox_line"),
    (delivery.SET_ASIDE, "sqlite_autoindex_outbox_1"),
    (delivery.CLAIM_OUTBOUND, "sqlite_autoindex_outbox_1"),
    (delivery.CALL_NEXT, "outbox_line"),
    (delivery.DOUBT, "outbox_sending"),
    (delivery.COUNT_OUTBOUND, "outbox_status"),
    (delivery.COUNT_INBOUND, "inbox_key"),
    (delivery.list_outbound_query(None, "sending", 10)[0], "outbox_status"),
    (delivery.list_outbound_query("s", None, 10)[0], "outbox_session"),
]


def plan(connection: apsw.Connection, sql: str) -> list[str]:
    """What SQLite is going to do, step by step."""
    spelled, _ = spell(sql)
    wanted = len(set(re.findall(r"\?\d+", spelled)))
    explained = connection.execute(f"EXPLAIN QUERY PLAN {spelled}", (None,) * wanted)
    return [str(step) for *_, step in explained]


@pytest.mark.parametrize(("sql", "index"), PLANS)
def test_no_call_of_a_gateway_looks_at_every_row_of_a_box(
    tmp_path: Path, sql: str, index: str
) -> None:
    with closing(apsw.Connection(str(tmp_path / "some.db"))) as connection:
        apply(connection, shipped_migrations())
        steps = plan(connection, sql)

    assert any(f"INDEX {index}" in step for step in steps), steps
    assert not {"SCAN inbox", "SCAN outbox", "SCAN o"} & set(steps)
    assert index == "outbox_status" or not any("outbox_status" in step for step in steps), steps


def test_messages_of_other_programs_are_found_along_their_ids(tmp_path: Path) -> None:
    with closing(apsw.Connection(str(tmp_path / "some.db"))) as connection:
        apply(connection, shipped_migrations())
        steps = plan(connection, EXTERNALS.format(hidden="coalesce(NULL, 0) = 1"))

    assert any("INDEX messages_external" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


@pytest.mark.parametrize(
    "sql",
    [
        delivery.CLAIM_ANY_INBOUND,
        delivery.CLAIM_SOME_INBOUND,
        delivery.DUE_AT_PLACE,
        delivery.list_outbound_query(None, "sending", 10)[0],
    ],
)
def test_what_has_a_limit_is_not_sorted_first(tmp_path: Path, sql: str) -> None:
    with closing(apsw.Connection(str(tmp_path / "some.db"))) as connection:
        apply(connection, shipped_migrations())

        assert not [step for step in plan(connection, sql) if "TEMP B-TREE FOR ORDER" in step]


def listing(name: str, **where: object) -> object:
    """The query of the second page of a list, and the index that it goes along."""
    given = SessionFilter(viewer="owner", **where)  # type: ignore[arg-type]  # any of its fields
    pinned = False if {*where} - {"platform", "cwd"} else None
    query = list_query(DIALECT, given, archived=False, pinned=pinned, after=(0, 5, "id"), limit=21)
    return pytest.param(query[0], name, id="-".join(where) or "all")


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        listing("sessions_listed"),
        listing("sessions_listed", pinned=False),
        listing("sessions_listed", active_since=1, active_until=9),
        listing("sessions_platform", platform="telegram"),
        listing("sessions_platform", platform="telegram", active_since=1, active_until=9),
        listing("sessions_kind", kind="cron"),
        listing("sessions_agent", agent="research"),
        listing("sessions_project", project="/p"),
        listing("sessions_project", project="/p", pinned=False),
        listing("sessions_guest", person="telegram:7"),
        listing("sessions_cwd", cwd="/p"),
    ],
)
def test_a_list_goes_along_the_index_of_its_filter(tmp_path: Path, sql: str, index: str) -> None:
    with closing(apsw.Connection(str(tmp_path / "some.db"))) as connection:
        apply(connection, shipped_migrations())
        steps = plan(connection, sql)

    assert len(steps) == 1, steps
    assert f"USING INDEX {index} " in steps[0], steps


def test_a_span_of_time_is_one_piece_of_the_index(tmp_path: Path) -> None:
    where = SessionFilter(viewer="owner", active_since=1, active_until=9)
    sql, _ = list_query(DIALECT, where, archived=False, pinned=False, after=None, limit=21)
    with closing(apsw.Connection(str(tmp_path / "some.db"))) as connection:
        apply(connection, shipped_migrations())
        (step,) = plan(connection, sql)

    assert "pinned=? AND updated_at>? AND updated_at<?" in step


@pytest.mark.parametrize("state", CANDIDATES)
def test_sessions_in_a_state_are_found_without_looking_at_every_turn(
    tmp_path: Path, state: ListedState
) -> None:
    where = SessionFilter(viewer="owner", state=state)
    listed, _ = list_query(DIALECT, where, archived=False, after=None, limit=21, among=["s"])
    with closing(apsw.Connection(str(tmp_path / "some.db"))) as connection:
        apply(connection, shipped_migrations())
        found = plan(connection, CANDIDATES[state])
        steps = plan(connection, listed)

    scans = [step for step in found if step.startswith("SCAN") and "USING" not in step]
    assert scans == (["SCAN attachments"] if state == "open" else []), found
    assert any("SEARCH sessions USING INDEX sqlite_autoindex_sessions_1" in each for each in steps)
    assert not any("SCAN sessions" in each for each in steps), steps


@pytest.mark.parametrize("column", FACETS)
def test_the_values_of_a_filter_are_found_step_by_step(tmp_path: Path, column: str) -> None:
    (sql,) = facet_queries(DIALECT, column)
    index = {"person": "sessions_guest"}.get(column, f"sessions_{column}")
    with closing(apsw.Connection(str(tmp_path / "some.db"))) as connection:
        apply(connection, shipped_migrations())
        steps = [each for each in plan(connection, sql) if "sessions" in each]

    assert len(steps) == 2, steps
    searched = rf"SEARCH sessions USING (COVERING )?INDEX {index}\b"
    assert all(re.search(searched, each) for each in steps), steps
