"""How SQLite goes about what a gateway asks of inbox and outbox: along an index, by no scan."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from clew.store.sqlite.engine import spell
from clew.store.sqlite.schema import apply, shipped_migrations
from clew.store.work import delivery

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
