from __future__ import annotations

import pytest

from clew.client.client import Client
from clew.core.changes import AddUsage, EndTurn, Send, StartTurn
from clew.core.delivery import NewOutbound
from clew.core.session import NewSession
from clew.core.usage import Usage
from clew.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    PersonalityNotFound,
    RecordNotFound,
    StaleMemory,
)
from clew.runtime.lane.lease import hold
from clew.version import __version__
from tests.client.conftest import Place


async def test_memory_is_written_whole_and_read_back(client: Client) -> None:
    empty = await client.memory.get("user")
    assert empty.content == ""
    written = await client.memory.write("user", content="Likes tea.\n")
    assert written == await client.memory.get("user")
    assert written.content == "Likes tea.\n"
    assert written.scope == "global"
    assert written.etag != empty.etag


async def test_a_stale_write_is_refused_and_one_without_an_etag_is_not(client: Client) -> None:
    first = await client.memory.write(content="one\n")
    second = await client.memory.write(content="two\n", if_match=first.etag)
    with pytest.raises(StaleMemory):
        await client.memory.write(content="three\n", if_match=first.etag)
    assert (await client.memory.get()).content == "two\n"
    await client.memory.write(content="four\n")
    assert (await client.memory.get()).etag != second.etag


async def test_the_history_has_what_was_written_before_and_by_whom(
    place: Place, client: Client
) -> None:
    for content in ("one\n", "two\n"):
        await client.memory.write(content=content)
    history = await client.memory.history()
    assert [each.number for each in history.versions] == [1, 2]
    (by,) = {each.by for each in history.versions}
    tokens = [f"api:{each.id}" for each in await place.store.list_tokens()]
    assert [by] == (tokens or ["owner"])
    file = await client.memory.get()
    assert (history.etag, history.path) == (file.etag, file.path)


async def test_a_version_is_read_and_restored_as_a_new_one(client: Client) -> None:
    for content in ("one\n", "two\n"):
        await client.memory.write(content=content)
    assert (await client.memory.version(2)).content == "one\n"

    restored = await client.memory.restore(2)

    assert (restored.changed, restored.kept, restored.number) == (True, True, 2)
    assert restored.file == await client.memory.get()
    assert restored.file.content == "one\n"
    assert [(await client.memory.version(each)).content for each in (1, 2, 3)] == [
        "one\n", "two\n", "one\n"
    ]  # fmt: skip
    newest = (await client.memory.history()).versions[0]
    assert newest.by.endswith(", restored version 2")
    again = await client.memory.restore(1)
    assert (again.changed, again.kept) == (False, False)


async def test_a_text_is_rendered_safely_and_not_written(client: Client) -> None:
    rendered = await client.memory.render("# Tea\n\n<script>trip(1)</script> **green**")
    assert "<strong>green</strong>" in rendered.html
    assert "<script" not in rendered.html
    assert (await client.memory.get()).content == ""


async def test_a_version_that_is_not_there_is_named(client: Client) -> None:
    for attempt in (client.memory.version(9, "user"), client.memory.restore(9, "user")):
        with pytest.raises(NotFound, match=r"USER\.md has no version 9\. `clew memory log` lists"):
            await attempt


async def test_a_version_is_not_put_over_a_change_that_the_caller_has_not_seen(
    client: Client,
) -> None:
    seen = await client.memory.write(content="one\n")
    await client.memory.write(content="two\n")
    with pytest.raises(StaleMemory):
        await client.memory.restore(2, if_match=seen.etag)
    assert (await client.memory.get()).content == "two\n"


async def test_a_person_has_a_user_file_of_their_own(client: Client) -> None:
    await client.memory.write("user", content="the owner\n")
    written = await client.memory.write("user", content="a guest\n", person="telegram:7")
    assert (written.person, written.content) == ("telegram:7", "a guest\n")
    assert (await client.memory.get("user", person="telegram:7")).content == "a guest\n"
    assert (await client.memory.get("user")).content == "the owner\n"
    assert (await client.memory.get("user", person="../../x")).content == ""
    await client.memory.write("user", content="changed\n", person="telegram:7")
    assert len((await client.memory.history("user", person="telegram:7")).versions) == 2
    assert (await client.memory.version(2, "user", person="telegram:7")).content == "a guest\n"
    restored = await client.memory.restore(2, "user", person="telegram:7")
    assert (restored.file.content, restored.file.person) == ("a guest\n", "telegram:7")
    with pytest.raises(InvalidInput):
        await client.memory.get("user", person="x" * 301)


async def test_the_memory_is_searched_and_its_chunks_are_listed(client: Client) -> None:
    await client.memory.write(content="# Home\n- the spare key\n- the boiler\n")
    await client.memory.write("user", content="likes keys\n", person="telegram:7")
    found = await client.memory.search("where is the key?", k=5)
    assert (found.mode, found.prompt, found.model, found.notice) == ("markdown", None, None, None)
    (hit,) = found.hits
    assert (hit.place, hit.text, hit.file) == ("MEMORY.md › Home", "the spare key", "memory")
    assert (hit.keyword_rank, hit.vector_rank, hit.given) == (1, None, False)
    assert (found.prompt_chunks, found.prompt_characters) == (8, 2000)
    theirs = await client.memory.search("keys", person="telegram:7")
    assert {each.text for each in theirs.hits} == {"likes keys", "the spare key"}
    listed = await client.memory.chunks(person="telegram:7")
    assert [(each.place, each.text, each.embedded) for each in listed.chunks] == [
        ("USER.md", "likes keys", False),
        ("MEMORY.md › Home", "the spare key", False),
        ("MEMORY.md › Home", "the boiler", False),
    ]
    for wrong in ({"k": 0}, {"k": 101}, {"q": "x" * 4_001}):
        with pytest.raises(InvalidInput):
            await client.call("memory.search", {"q": "key"} | wrong)


async def test_an_unknown_personality_is_refused(client: Client) -> None:
    with pytest.raises(PersonalityNotFound):
        await client.memory.get(personality="nobody")
    with pytest.raises(PersonalityNotFound):
        await client.memory.get(personality="../../etc")


async def test_an_unknown_file_is_refused(client: Client) -> None:
    with pytest.raises(InvalidInput):
        await client.call("memory.get", {"store": "../passwd"})


async def test_the_personalities_begin_with_the_default(client: Client) -> None:
    listed = await client.personalities.list()
    assert listed[0].id == "default"
    assert [await client.personalities.get(each.id) for each in listed] == list(listed)
    with pytest.raises(PersonalityNotFound, match="engineer"):
        await client.personalities.get("pirate")


async def test_the_status_has_versions_counts_and_what_goes_on(
    place: Place, client: Client
) -> None:
    await place.talked(client, "hello")
    status = await client.status()
    assert status.version == __version__
    assert status.stats is not None
    assert status.stats.messages == 2
    assert (status.queued, status.waiting, status.leases) == (0, 0, ())


async def test_usage_is_summed_up_by_day_model_session_and_platform(
    place: Place, client: Client
) -> None:
    session = await place.session()
    usage = Usage(input_tokens=10, output_tokens=5, cost=7, api_calls=1)
    async with hold(place.store, session.id, "test") as lease:
        await place.store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id="t1", model="script/one"),
            AddUsage(usage=usage, turn_id="t1"),
            EndTurn(turn_id="t1", status="done"),
        )
    for by, name in (("model", "script/one"), ("session", session.id), ("platform", "cli")):
        report = await client.usage(by=by)  # type: ignore[arg-type]
        assert [(row.name, row.usage) for row in report.rows] == [(name, usage)]
    (day,) = (await client.usage()).rows
    assert len(day.name) == len("2026-01-01")
    assert (await client.usage(since=2**52)).rows == ()


async def test_usage_by_session_is_a_page_of_the_dearest_and_says_how_many_there_are(
    place: Place, client: Client
) -> None:
    for cost in (5, None, 9, 7):
        session = await place.store.create_session(NewSession(key=f"k{cost}"))
        async with hold(place.store, session.id, "test") as lease:
            usage = AddUsage(usage=Usage(1, cost=cost), turn_id=session.id)
            start = StartTurn(turn_id=session.id)
            await place.store.record(session.id, lease.epoch, start, usage)

    report = await client.usage(by="session", limit=3)

    assert [row.usage.cost for row in report.rows] == [9, 7, 5]
    assert (report.count, report.total.usage, report.total.turns) == (4, Usage(4, cost=None), 4)
    assert len((await client.usage(by="session")).rows) == 4
    assert {each.name for each in report.sessions.values()} == {
        f"(no messages) {row.name[:8]}" for row in report.rows
    }
    assert all(each.startswith(named.short_id) for each, named in report.sessions.items())
    with pytest.raises(InvalidInput, match=r"limit must be at most 100000 \(it was 100001\)"):
        await client.usage(by="session", limit=100_001)


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("UTC", "2026-05-01"),
        ("Pacific/Kiritimati", "2026-05-02"),
        ("+13:00", "2026-05-02"),
        ("-1200", "2026-05-01"),
    ],
)
async def test_usage_by_day_is_cut_where_the_caller_is(
    place: Place, client: Client, zone: str, day: str
) -> None:
    session = await place.session()
    async with hold(place.store, session.id, "test") as lease:
        noon = 1_777_636_800_000
        start = StartTurn(turn_id="t1", at=noon)
        await place.store.record(
            session.id, lease.epoch, start, AddUsage(usage=Usage(1), turn_id="t1")
        )
    assert [row.name for row in (await client.usage(timezone=zone)).rows] == [day]


@pytest.mark.parametrize("zone", ["Mars/Base", "+99:99", "../../etc/passwd", "/etc/passwd"])
async def test_a_time_zone_that_there_is_not_is_told(client: Client, zone: str) -> None:
    with pytest.raises(InvalidInput, match="There is no time zone"):
        await client.usage(timezone=zone)


async def test_the_numbers_of_the_store_are_for_its_owner(place: Place, client: Client) -> None:
    await place.talked(client, "hello")
    stats = await client.stats()
    assert (stats.sessions, stats.messages) == (1, 2)
    guest = await place.client("telegram:5", "read")
    with pytest.raises(Forbidden, match="Only the owner"):
        await guest.stats()


async def test_a_reply_that_failed_is_sent_again_and_one_that_arrived_is_not(
    place: Place, client: Client
) -> None:
    session = await place.session()
    async with hold(place.store, session.id, "test") as lease:
        for name in ("failed", "sent"):
            outbound = NewOutbound(id=name, key=session.key, channel="test", content="hi")
            await place.store.record(session.id, lease.epoch, Send(outbound))
    await place.store.settle_outbound("failed", "failed", error="no route")
    await place.store.settle_outbound("sent", "sent")
    (listed,) = await client.outbox.list(state="failed")
    assert (listed.id, listed.error) == ("failed", "no route")
    assert (await client.outbox.retry("failed")).status == "pending"
    with pytest.raises(Conflict):
        await client.outbox.retry("sent")
    with pytest.raises(RecordNotFound):
        await client.outbox.retry("nothing")
    assert len(await client.outbox.list(session.id)) == 2


async def test_the_owner_says_that_an_uncertain_reply_has_arrived(
    place: Place, client: Client
) -> None:
    session = await place.session()
    async with hold(place.store, session.id, "test") as lease:
        for name in ("uncertain", "next", "failed"):
            outbound = NewOutbound(id=name, key=session.key, channel="test", content="hi")
            await place.store.record(session.id, lease.epoch, Send(outbound))
    await place.store.settle_outbound("uncertain", "uncertain", error="timed out")
    await place.store.settle_outbound("failed", "failed", error="refused")
    confirmed = await client.outbox.confirm("uncertain")
    assert (confirmed.status, confirmed.error) == ("sent", None)
    assert confirmed.receipt is not None
    assert set(confirmed.receipt) == {"confirmed_by"}
    (due,) = await place.store.claim_outbound("test")
    assert due.id == "next", "and what was confirmed is not sent again"
    for name in ("uncertain", "failed"):
        with pytest.raises(Conflict):
            await client.outbox.confirm(name)
    with pytest.raises(RecordNotFound):
        await client.outbox.confirm("nothing")
