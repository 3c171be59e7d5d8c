"""Who owns a session that somebody opens by its key: whose conversation it is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.cron import CronJob
from clew.core.session import OWNER, NewSession, SessionFilter
from clew.runtime.cron import begin_run
from clew.testing.clock import DAY
from tests.runtime.conftest import Actor, soon
from tests.runtime.receiving import NOON, Opener, opener

GUEST = "telegram:456"
KEY = "agent:main:telegram:dm:456"


@pytest.fixture
def open_front(url: str, models: Catalogue, tmp_path: Path, directory: Path) -> Opener:
    return opener(url, models, tmp_path / "home", directory)


@pytest.mark.parametrize("key", [KEY, "telegram:456"])
async def test_what_the_owner_opens_under_a_guests_key_is_the_guests(
    open_front: Opener, actor: Actor, key: str
) -> None:
    async with open_front(actor, paired=(GUEST,)) as front:
        opened = await front.say("hello there", person=OWNER, key=key, channel="api")
        theirs = await front.say("who is it?", by="456")

        assert theirs.id == opened.id
        assert (opened.person, opened.platform, opened.kind) == (GUEST, "telegram", "dm")
        assert (opened.cwd, opened.project) == (None, None), "a guest has no directory here"
        assert [turn.person for turn in actor.turns] == [OWNER, GUEST], "rights are who asks"
        for viewer in (GUEST, OWNER):
            page = await front.store.list_sessions(SessionFilter(viewer=viewer))
            assert [each.id for each in page.sessions] == [opened.id]


async def test_what_the_owner_had_there_before_is_the_guests_after_a_reset(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        old = await front.store.create_session(
            NewSession(key=KEY, platform="telegram", kind="dm", cwd="/secret", created_at=NOON)
        )
        front.clock.advance(2 * DAY)
        new = await front.say("hello", person=OWNER, key=KEY, channel="api")

        assert (new.previous_id, new.person, new.cwd) == (old.id, GUEST, None)


async def test_a_job_that_opens_a_guests_conversation_does_not_take_it_over(
    open_front: Opener, actor: Actor, models: Catalogue
) -> None:
    async with open_front(actor, paired=(GUEST,)) as front:
        job = CronJob(name="news", schedule="@daily", text="news?", due_at=0, session=KEY)
        ticket = await begin_run(front.runtime, models, job, "news@1")
        await soon(ticket.turn)
        theirs = await front.say("thanks", by="456")

        assert theirs.person == GUEST
        assert [turn.person for turn in actor.turns] == [OWNER, GUEST]
        isolated = msgspec.structs.replace(job, session="isolated")
        ticket = await begin_run(front.runtime, models, isolated, "news@2")
        await soon(ticket.turn)
        assert ticket.inbound is not None
        assert (await front.store.get_session(ticket.inbound.session_id or "")).person == OWNER
