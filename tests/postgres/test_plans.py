"""How PostgreSQL goes about what a gateway asks of boxes and lists: along an index, by no scan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from clew.core.session import ListedState, SessionFilter
from clew.store.postgres.database import DIALECT
from clew.store.work import delivery
from clew.store.work.listing import CANDIDATES, FACETS, facet_queries, list_query
from tests.postgres.server import Server

FILL = """
INSERT INTO sessions (id, key, agent, person, platform, kind, created_at, updated_at)
  SELECT 's' || n, 'k', 'main', 'owner', 'cli', 'cli', 1, 1 FROM generate_series(1, 200) n;
INSERT INTO inbox (id, channel, account, external_id, key, session_id, person, payload, status,
    claimant, received_at, settled_at)
  SELECT 'i' || n, 'c', 'a', 'e' || n, 'k' || n % 500, 's' || n % 200 + 1, 'owner', '{}',
    CASE WHEN n < 20000 THEN 'done' WHEN n % 2 = 0 THEN 'queued' ELSE 'claimed' END,
    'me' || n % 50, n, CASE WHEN n < 20000 THEN n END
  FROM generate_series(1, 22000) n;
INSERT INTO outbox (id, session_id, key, channel, address, content, status, due_at, claimant,
    created_at, updated_at)
  SELECT 'o' || n, 's' || n % 200 + 1, 'k' || n % 500, 'c' || n % 4, '{}', '',
    CASE WHEN n < 20000 THEN 'sent' WHEN n % 20 = 0 THEN 'sending' ELSE 'pending' END, n,
    'me' || n % 50, n, n
  FROM generate_series(1, 22000) n;
ANALYZE
"""

PLANS = [
    (delivery.CLAIM_ANY_INBOUND, ("'x'", "1", "5"), "inbox_queued"),
    (delivery.CLAIM_SOME_INBOUND, ("'x'", "1", "5", "'s7'"), "inbox_open"),
    (delivery.RELEASE, ("'me7'",), "inbox_claimed"),
    (delivery.FIND_SETTLED, ("100", "20"), "inbox_settled"),
    (delivery.DUE_AT_PLACE, ("99999", "10", "'c3'", "'default'"), "outbox_due"),
    (delivery.DUE_AT_PLACE, ("99999", "10", "'c3'", "'default'"), "outbox_line"),
    (delivery.CALL_NEXT, ("'k7'", "1", "'c3'", "'default'"), "outbox_line"),
    (delivery.DOUBT, ("'me7'", "1"), "outbox_sending"),
    (delivery.list_outbound_query(None, "sending", 10)[0], ("10", "'sending'"), "outbox_status"),
]


@pytest.fixture(scope="module")
def filled(server: Server, template: str) -> Iterator[str]:
    name = server.create_database(template)
    server.execute(FILL, name)
    yield name
    server.drop_database(name)


@pytest.mark.parametrize(("sql", "values", "index"), PLANS)
def test_no_call_of_a_gateway_looks_at_every_row_of_a_box(
    server: Server, filled: str, sql: str, values: tuple[str, ...], index: str
) -> None:
    bound = re.sub(r"\$(\d+)", lambda mark: values[int(mark[1]) - 1], sql)

    plan = "\n".join(row[0] for row in server.execute(f"EXPLAIN {bound}", filled))

    assert re.search(rf"on {index}\b|using {index}\b", plan), plan
    assert "Seq Scan on inbox" not in plan
    assert "Seq Scan on outbox" not in plan


FILL_SESSIONS = """
INSERT INTO sessions (id, key, agent, person, platform, kind, project, created_at, updated_at,
    pinned)
  SELECT 's' || n, 'k', CASE WHEN n % 2000 = 0 THEN 'research' ELSE 'main' END,
    CASE WHEN n % 2000 = 1 THEN 'telegram:7' ELSE 'owner' END, 'cli',
    CASE WHEN n % 2000 = 2 THEN 'cron' ELSE 'cli' END,
    CASE WHEN n % 2 = 0 THEN '/p' || n % 500 END, n, n, n % 100 = 0
  FROM generate_series(1, 20000) n;
INSERT INTO turns (id, session_id, first_seq, status, started_at)
  SELECT 't' || n, 's' || n, 1,
    CASE WHEN n % 2000 = 0 THEN 'running' WHEN n % 1000 = 0 THEN 'interrupted' ELSE 'done' END, 1
  FROM generate_series(1, 20000) n;
ANALYZE
"""


@pytest.fixture(scope="module")
def many_sessions(server: Server, template: str) -> Iterator[str]:
    name = server.create_database(template)
    server.execute(FILL_SESSIONS, name)
    yield name
    server.drop_database(name)


def explain(server: Server, database: str, sql: str, bindings: tuple[Any, ...] = ()) -> str:
    bound = re.sub(r"\$(\d+)", lambda mark: spell(bindings[int(mark[1]) - 1]), sql)
    return "\n".join(row[0] for row in server.execute(f"EXPLAIN ANALYZE {bound}", database))


def spell(value: object) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(spell, value))}]"
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize(
    ("index", "where"),
    [
        ("sessions_listed", {}),
        ("sessions_listed", {"active_since": 100, "active_until": 120}),
        ("sessions_kind", {"kind": "cron"}),
        ("sessions_agent", {"agent": "research"}),
        ("sessions_project", {"project": "/p4"}),
        ("sessions_guest", {"person": "telegram:7"}),
    ],
)
def test_a_list_goes_along_the_index_of_its_filter(
    server: Server, many_sessions: str, index: str, where: dict[str, Any]
) -> None:
    given = SessionFilter(viewer="owner", **where)
    pinned = False if where else None
    sql, bindings = list_query(
        DIALECT, given, archived=False, pinned=pinned, after=(0, 9_000, "s"), limit=21
    )

    plan = explain(server, many_sessions, sql, bindings)

    assert re.search(rf"(on|using) {index}\b", plan), plan
    assert "Seq Scan" not in plan


@pytest.mark.parametrize("state", ["waiting", "running", "interrupted"])
def test_sessions_in_a_state_are_found_without_looking_at_every_turn(
    server: Server, many_sessions: str, state: ListedState
) -> None:
    plan = explain(server, many_sessions, CANDIDATES[state])

    assert "Seq Scan on turns" not in plan
    assert "Seq Scan on sessions" not in plan


@pytest.mark.parametrize("column", FACETS)
def test_the_values_of_a_filter_are_found_step_by_step(
    server: Server, many_sessions: str, column: str
) -> None:
    active, _ = facet_queries(DIALECT, column)  # no session is archived

    plan = explain(server, many_sessions, active)

    assert "Seq Scan on sessions" not in plan
    assert plan.count("Limit") == 2, plan
