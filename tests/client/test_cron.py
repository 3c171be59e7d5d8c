from __future__ import annotations

import asyncio

import pytest

from clew.client.client import Client
from clew.errors import Conflict, InvalidInput, RecordNotFound
from tests.client.conftest import Place, outline
from tests.runtime.conftest import Held, saying, soon


async def test_a_job_is_added_listed_run_and_removed(place: Place, client: Client) -> None:
    job = await client.cron.add("news", "0 8 * * mon-fri", "What is new?")
    assert await client.cron.list() == (job,)
    assert job.due_at > place.runtime.clock()
    place.actor.scenes = [saying("Nothing much.")]
    run = await client.cron.run("news")
    await soon(place.runtime.join(run.session))
    detail = await client.sessions.get(run.session)
    assert outline(detail.messages) == ["user: What is new?", "assistant: Nothing much."]
    assert detail.session.kind == "cron"
    (after,) = await client.cron.list()
    assert after.last_run_at is not None
    assert after.due_at == job.due_at
    assert (await client.cron.remove("news")).name == "news"
    assert await client.cron.list() == ()


async def test_a_run_is_waited_for_until_its_answer_is_there(place: Place, client: Client) -> None:
    await client.cron.add("news", "@daily", "What is new?", session="fixed")
    held = Held("Nothing much.")
    place.actor.scenes = [held]
    run = await client.cron.run("news")

    early = await client.queue.wait(run.inbound, seconds=1)
    waiting = asyncio.create_task(client.queue.wait(run.inbound))
    await soon(held.began.wait())
    held.go_on.set()
    waited = await soon(waiting)

    assert (early.session, early.turn) == (run.session, None)
    assert waited.turn is not None
    assert (waited.turn.status, waited.answer) == ("done", "Nothing much.")
    assert await client.queue.wait(run.inbound) == waited


async def test_a_message_that_is_not_there_or_another_person_s_is_not_waited_for(
    place: Place, client: Client
) -> None:
    await client.cron.add("news", "@daily", "What is new?")
    run = await client.cron.run("news")
    guest = await place.client("telegram:5", "write")
    for attempt in (client.queue.wait("nothing"), guest.queue.wait(run.inbound)):
        with pytest.raises(RecordNotFound):
            await attempt


async def test_a_second_job_of_the_same_name_is_refused(client: Client) -> None:
    await client.cron.add("news", "@daily", "What is new?")
    with pytest.raises(Conflict):
        await client.cron.add("news", "@hourly", "And now?")


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedule": "whenever"},
        {"name": "../news"},
        {"text": "  "},
        {"timezone": "Mars/Olympus"},
        {"timezone": "../../etc/passwd"},
        {"deliver_to": "nowhere"},
    ],
)
async def test_a_job_that_makes_no_sense_is_refused(client: Client, wrong: dict[str, str]) -> None:
    given = {"name": "news", "schedule": "@daily", "text": "What is new?"} | wrong
    with pytest.raises(InvalidInput):
        await client.call("cron.add", given)
    assert await client.cron.list() == ()


async def test_a_job_that_is_not_there_can_be_neither_run_nor_removed(client: Client) -> None:
    with pytest.raises(RecordNotFound):
        await client.cron.run("news")
    with pytest.raises(RecordNotFound):
        await client.cron.remove("news")
