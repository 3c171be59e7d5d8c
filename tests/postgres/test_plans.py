"""How PostgreSQL goes about what a gateway asks of inbox and outbox: along an index, by no scan."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from clew.store.work import delivery
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
