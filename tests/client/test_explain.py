"""Why clew decides as it does, asked in process and over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.api.seats import TerminalBreadcrumb, TerminalPlace
from clew.client.client import Client
from clew.errors import Forbidden, InvalidInput, SessionNotFound
from tests.client.conftest import Place

ROOT = str(Path(__file__).resolve().parent)
HERE = TerminalPlace(cwd="/srv/api", project="/srv/api", basename="api")


async def test_a_route_says_its_key_its_agent_and_what_was_considered(client: Client) -> None:
    found = await client.explain.route("telegram", peer="dm:42", is_owner=False)
    assert (found.key, found.agent) == ("agent:main:telegram:dm:42", "main")
    assert found.considered
    with pytest.raises(InvalidInput, match="42"):
        await client.explain.route("telegram", peer="42")


async def test_a_reset_is_decided_in_the_zone_that_was_asked_for(client: Client) -> None:
    asked = ("agent:main:main", "2026-03-09T23:00")
    found = await client.explain.reset(*asked, now="2026-03-10T08:00")
    assert (found.fresh, found.reason) == (False, "daily")
    assert found.boundary == "2026-03-10T04:00:00+00:00"
    other = await client.explain.reset(*asked, now="2026-03-10T08:00", timezone="Asia/Tokyo")
    assert other.boundary == "2026-03-10T04:00:00+09:00"
    with pytest.raises(InvalidInput, match="updated_at must be a time such as"):
        await client.explain.reset("agent:main:main", "yesterday")
    with pytest.raises(InvalidInput, match='There is no time zone "Mars/Base"'):
        await client.explain.reset(*asked, timezone="Mars/Base")


async def test_sending_and_triggers_are_explained_by_the_rules_that_hold_there(
    client: Client,
) -> None:
    sent = await client.explain.send("agent:main:discord:group:5", override="deny")
    assert (sent.decision, sent.rule, sent.channel) == ("deny", "override", "discord")
    found = await client.explain.trigger("/fresh big fix it")
    assert (found.triggered, found.model, found.remainder) == (True, "script/two", "fix it")
    assert not (await client.explain.trigger("/fresh", is_owner=False)).triggered


async def test_resuming_tells_the_step_the_session_and_the_rejected(
    place: Place, client: Client
) -> None:
    here = await place.session("cli:one", title="Login", cwd="/srv/api", project="/srv/api")
    other = await place.session("cli:two", title="login", cwd="/srv/web")
    found = await client.explain.resume("LOGIN", cwd="/srv/api", project="/srv/api")
    assert (found.step, [each.id for each in found.matches]) == ("title", [here.id])
    assert [(each.session.id, each.step) for each in found.rejected] == [(other.id, "title")]
    nothing = await client.explain.resume("nothing", cwd="/srv/api", project="/srv/api")
    assert (nothing.step, nothing.matches) == (None, ())


async def test_continuing_follows_the_breadcrumb_that_is_told(place: Place, client: Client) -> None:
    where = TerminalPlace(cwd=ROOT, project=ROOT)
    talked = await place.talked(client, "hello")
    assert (await client.explain.continued(where)).why == "none"
    session = await place.session("cli:here", cwd=where.cwd)
    crumb = TerminalBreadcrumb(cwd=where.cwd, session=session.id)
    found = await client.explain.continued(where, crumb)
    assert (found.why, found.session and found.session.id) == ("breadcrumb", session.id)
    fresh = TerminalBreadcrumb(cwd=where.cwd, session=talked, fresh=True)
    assert (await client.explain.continued(where, fresh)).why == "fresh"


async def test_a_key_says_where_it_leads_and_moves_nothing(place: Place, client: Client) -> None:
    assert (await client.explain.key(HERE)).rule == "free"
    session = await place.session("cli:api", cwd="/srv/api", project="/srv/api")
    found = await client.explain.key(HERE, "cli:api")
    assert (found.rule, found.session and found.session.id) == ("explicit", session.id)
    assert await place.store.get_session(session.id) == session


async def test_a_session_says_its_keys_its_resets_and_where_replies_go(
    place: Place, client: Client
) -> None:
    old = await place.session("agent:main:telegram:group:7", platform="telegram")
    new = await place.session(
        "agent:main:telegram:group:7", platform="telegram", reset_reason="idle", previous_id=old.id
    )
    await place.store.set_route("cli:here", new.id)
    fork = await client.sessions.fork(new.id)
    told = await client.explain.session(new.id)
    assert set(told.leading) == {"agent:main:telegram:group:7", "cli:here"}
    assert told.reset_reason == "idle"
    assert told.previous is not None
    assert told.previous.id == old.id
    assert (told.reset, told.parent) == (None, None), "nobody has written there yet"
    assert told.send.decision == "allow"
    await client.sessions.update(new.id, send_policy="deny")
    assert (await client.explain.session(new.id)).send.decision == "deny"
    of_fork = await client.explain.session(fork.id)
    assert of_fork.parent is not None
    assert (of_fork.parent.id, of_fork.leading) == (new.id, ())
    talked = await place.talked(client, "hello")
    reset = (await client.explain.session(talked)).reset
    assert reset is not None
    assert reset.fresh
    with pytest.raises(SessionNotFound):
        await client.explain.session("00000000-0000-4000-8000-000000000000")


async def test_only_the_owner_may_ask(place: Place) -> None:
    guest = await place.client("telegram:5", "admin")
    for attempt in (
        guest.explain.route("telegram"),
        guest.explain.reset("agent:main:main", "2026-03-09"),
        guest.explain.send("agent:main:main"),
        guest.explain.trigger("/new"),
        guest.explain.resume("x", cwd="/", project="/"),
        guest.explain.continued(HERE),
        guest.explain.key(HERE),
    ):
        with pytest.raises(Forbidden, match="Only the owner"):
            await attempt
