"""From a message on a channel to its turn: where it goes, when that begins anew, who may what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.agent.models.catalogue import Catalogue
from clew.core.channels.replies import Attached
from clew.core.channels.resets import ResetRule, ResetRules
from clew.core.channels.routing import Peer, RoutingRules
from clew.core.channels.send_policy import SendRules
from clew.core.channels.session_choice import GREETING
from clew.core.delivery import NewInbound
from clew.core.session import OWNER, SessionEdit, SessionFacts
from clew.testing.clock import DAY, SECOND
from tests.runtime.conftest import Actor, Held, soon, until
from tests.runtime.receiving import Front, Opener, incoming, opener

HOUR = 3600 * SECOND
GROUP = Peer("group", "-100")
MAIN = "agent:main:main"


@pytest.fixture
def open_front(url: str, models: Catalogue, tmp_path: Path, directory: Path) -> Opener:
    return opener(url, models, tmp_path / "home", directory)


@pytest.fixture
async def front(open_front: Opener, actor: Actor) -> AsyncIterator[Front]:
    async with open_front(actor) as opened:
        yield opened


# --- where it goes ------------------------------------------------------------------------------


async def test_a_first_message_makes_the_session_of_its_key(front: Front) -> None:
    session = await front.say("hello")

    assert (session.key, session.kind, session.platform) == (MAIN, "main", "telegram")
    assert (session.person, session.agent) == (OWNER, "main")
    assert await front.thread(session) == ["user: hello", "assistant: ok"]
    assert await front.sent() == ["ok"]


async def test_the_next_message_goes_on_there_from_any_channel_of_the_owner(front: Front) -> None:
    first = await front.say("hello")
    second = await front.say("again", by="U1", channel="slack")

    assert second.id == first.id
    assert await front.sent("telegram:1") == ["ok"]
    assert await front.sent("slack:U1") == ["ok"]


@pytest.mark.parametrize(
    ("fields", "key", "person", "kind"),
    [
        ({"by": "7"}, "agent:main:telegram:dm:7", "telegram:7", "dm"),
        ({"by": "7", "peer": GROUP}, "agent:main:telegram:group:-100", OWNER, "group"),
        ({"peer": GROUP}, "agent:main:telegram:group:-100", OWNER, "group"),
        (
            {"peer": GROUP, "thread": "5", "is_forum": True},
            "agent:main:telegram:group:-100:topic:5",
            OWNER,
            "thread",
        ),
        (
            {"channel": "slack", "by": "U2", "thread": "9"},
            "agent:main:slack:dm:u2:thread:9",
            "slack:u2",
            "thread",
        ),
    ],
)
async def test_a_session_belongs_to_whom_it_is_with(
    front: Front, fields: dict[str, Any], key: str, person: str, kind: str
) -> None:
    session = await front.say("hello", **fields)

    assert (session.key, session.person, session.kind) == (key, person, kind)


async def test_a_guest_turn_has_the_rights_of_the_guest_also_in_a_group(
    front: Front, actor: Actor
) -> None:
    await front.say("hello", by="7", peer=GROUP)
    await front.say("hello", by="1", peer=GROUP)

    assert [turn.person for turn in actor.turns] == ["telegram:7", OWNER]


async def test_people_who_are_linked_share_a_session_and_are_one_person(
    open_front: Opener, actor: Actor
) -> None:
    links: dict[str, tuple[str, ...]] = {"alice": ("telegram:7", "slack:u7")}
    async with open_front(
        actor, routing=RoutingRules(dm_scope="per-peer", identity_links=links)
    ) as front:
        one = await front.say("hello", by="7")
        two = await front.say("again", by="U7", channel="slack")

    assert (one.id, one.key, one.person) == (two.id, "agent:main:dm:alice", "person:alice")
    assert [turn.person for turn in actor.turns] == ["person:alice"] * 2


async def test_nobody_is_the_owner_because_a_channel_says_so(front: Front) -> None:
    message = incoming("hello", by="7")
    said = msgspec.structs.replace(message.arrival, is_owner=True)

    receipt = await front.hear(msgspec.structs.replace(message, arrival=said))

    assert (await front.rest(receipt)).person == "telegram:7"


async def test_what_has_a_key_of_its_own_is_plain_text_of_the_owners_and_moves_no_clock(
    front: Front,
) -> None:
    session = await front.say(
        "/new", channel="hook", by="deploys", key="agent:main:hook:1", from_person=False,
        reply_to=None,
    )  # fmt: skip

    assert (session.key, session.kind, session.person) == ("agent:main:hook:1", "hook", OWNER)
    assert await front.thread(session) == ["user: /new", "assistant: ok"]
    assert session.last_interaction_at is None
    assert await front.sent() == []


@pytest.mark.parametrize("channel", ["cli", "agent", "web", "sdk"])
async def test_no_channel_is_called_so_that_it_leads_into_other_peoples_sessions(
    front: Front, channel: str
) -> None:
    owners = await front.say("hello")
    await front.store.set_route(f"{channel}:main:main", owners.id)

    session = await front.say("hello", channel=channel, by="main:main")

    assert session.id != owners.id


async def test_files_come_along(front: Front) -> None:
    session = await front.say("look", attachments=(Attached("image/png", b"png", "a.png"),))

    (first, _) = await front.store.get_messages(session.id)
    (part,) = first.parts
    assert part["type"] == "image"
    assert (await front.store.get_blob(part["blob"])).data == b"png"


async def test_a_message_with_nothing_in_it_begins_nothing(front: Front) -> None:
    receipt = await front.hear(incoming(" \n"))

    assert (receipt.inbound_id, receipt.note) == (None, "There is nothing in it.")
    assert await front.store.find_route(MAIN) is None


async def test_a_greeting_gives_no_title_but_what_is_said_then_does(front: Front) -> None:
    session = await front.say("/new")
    await front.say("Tell me about cheese")

    async def is_titled() -> bool:
        return (await front.store.get_session(session.id)).title is not None

    await until(is_titled)
    assert (await front.store.get_session(session.id)).title == "Tell me about cheese"


# --- once ---------------------------------------------------------------------------------------


async def test_a_second_delivery_is_the_first_one(front: Front) -> None:
    message = incoming("hello")
    first = await front.hear(message)
    session = await front.rest(first)

    second = await front.hear(message)

    assert (second.inbound_id, second.is_new) == (first.inbound_id, False)
    assert (await front.rest(second)).message_count == session.message_count == 2


async def test_the_same_id_on_another_account_is_another_message(front: Front) -> None:
    await front.say("one", external_id="5")
    session = await front.say("two", external_id="5", account="second")

    assert [each for each in await front.thread(session) if each.startswith("user")] == [
        "user: one",
        "user: two",
    ]


async def test_a_second_delivery_of_new_begins_nothing(front: Front) -> None:
    await front.say("hello")
    message = incoming("/new what now")
    first = await front.hear(message)
    await front.hear(message)

    found = await front.store.find_route(MAIN)
    assert found is not None
    assert found.id == first.session_id
    assert len([text for text in await front.sent() if "/resume" in text]) == 1


async def test_a_second_delivery_of_a_command_does_nothing(front: Front, actor: Actor) -> None:
    stop = incoming("stop")
    await front.hear(stop)
    held = Held()
    actor.scenes.append(held)
    receipt = await front.hear(incoming("work"))
    await soon(held.began.wait())

    await front.hear(stop)

    assert not held.stopped
    held.go_on.set()
    await front.rest(receipt)
    assert await front.sent() == ["Nothing is running.", "ok"]


@pytest.mark.parametrize("is_alive", [True, False])
async def test_a_second_delivery_is_run_if_whoever_had_the_first_is_dead(
    front: Front, open_front: Opener, is_alive: bool
) -> None:
    session = await front.say("hello")
    message = incoming("more")
    row = await front.reception.decide(message)
    async with open_front(Actor()) as other:
        await other.store.accept(row, claimant=f"{other.store.identity}#{row.id}")
        if is_alive:
            await front.hear(message)
    if not is_alive:
        await front.hear(message)

    await soon(front.runtime.join(session.id))
    assert ("user: more" in await front.thread(session)) is not is_alive


async def test_a_message_that_got_stuck_is_run_by_its_second_delivery(front: Front) -> None:
    session = await front.say("hello")
    message = incoming("more")
    # A process kept it, could not go on, and has let it go.
    await front.store.accept(
        NewInbound(
            id="stuck",
            channel="telegram",
            external_id=message.external_id,
            key=MAIN,
            session_id=session.id,
            payload={"text": "more"},
        )
    )

    receipt = await front.hear(message)

    assert not receipt.is_new
    session = await front.rest(receipt)
    assert (await front.thread(session))[-2:] == ["user: more", "assistant: ok"]


# --- resets -------------------------------------------------------------------------------------


async def test_the_next_day_is_a_new_session_under_the_same_key(front: Front) -> None:
    old = await front.say("hello")
    front.clock.advance(DAY)

    new = await front.say("good morning")

    assert (new.previous_id, new.reset_reason, new.key) == (old.id, "daily", MAIN)
    assert await front.thread(new) == ["user: good morning", "assistant: ok"]
    assert await front.sent() == [
        "ok",
        "A new day: a new conversation begins. /resume goes back to the one before.",
        "ok",
    ]
    found = await front.store.find_route(MAIN)
    assert found is not None
    assert found.id == new.id


async def test_a_pause_that_is_over_by_a_millisecond_is_over(
    open_front: Opener, actor: Actor
) -> None:
    rules = ResetRules(reset=ResetRule("idle", idle_minutes=60))
    async with open_front(actor, resets=rules) as front:
        first = await front.say("hello")
        front.clock.advance(HOUR)
        second = await front.say("still here")
        front.clock.advance(HOUR + 1)
        third = await front.say("back")

    assert second.id == first.id
    assert (third.previous_id, third.reset_reason) == (first.id, "idle")


async def test_a_reset_keeps_what_the_person_chose(front: Front) -> None:
    old = await front.say("hello")
    edit = SessionEdit(
        title="Kitchen", pinned=True, model="script/two", provider="script", thinking="low",
        send_policy="allow", personality="coach",
    )  # fmt: skip
    await front.store.edit_session(old.id, edit)
    await front.say("/queue steer")
    front.clock.advance(DAY)

    new = await front.say("good morning")

    assert (new.title, new.title_by, new.pinned) == ("Kitchen", "user", True)
    assert (new.model, new.provider, new.thinking) == ("script/two", "script", "low")
    assert (new.send_policy, new.personality) == ("allow", "coach")
    assert new.metadata["queue"] == "steer"
    assert not (await front.store.get_session(old.id)).pinned


async def test_a_title_that_nobody_typed_is_not_kept(front: Front) -> None:
    old = await front.say("Tell me about cheese")
    await front.store.describe_session(old.id, SessionFacts(title="Cheese"))
    front.clock.advance(DAY)

    new = await front.say("Something else")

    assert new.title != "Cheese"


async def test_resume_goes_back_and_stays_there(front: Front) -> None:
    old = await front.say("hello")
    front.clock.advance(DAY)
    await front.say("good morning")

    await front.say("/resume")

    assert "This goes on with" in await front.last()
    assert (await front.say("where were we")).id == old.id
    front.clock.advance(DAY)
    assert (await front.say("next day")).id != old.id


async def test_resuming_a_guests_session_says_who_reads_along(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor) as front:
        theirs = await front.say("hello, I am Eve", by="5", name="Eve")
        assert theirs.person == "telegram:5"
        mine = await front.say("good morning")

        await front.say(f"/resume {theirs.id}")

        told = await front.last()
        assert "telegram:5" in told
        assert "can read what you say here. /fork goes on in one of your own." in told
        await front.say(f"/resume {mine.id}")
        assert "can read" not in await front.last()


async def test_what_no_person_said_neither_resets_nor_prolongs(front: Front) -> None:
    old = await front.say("hello")
    front.clock.advance(DAY)
    job = await front.say("report", key=MAIN, from_person=False, channel="cron", by="job")
    assert job.id == old.id

    assert (await front.say("good morning")).previous_id == old.id


async def test_a_command_does_not_reset(front: Front) -> None:
    old = await front.say("hello")
    front.clock.advance(DAY)
    await front.say("/status")

    found = await front.store.find_route(MAIN)
    assert found is not None
    assert found.id == old.id


async def test_a_running_turn_finishes_where_it_began(front: Front, actor: Actor) -> None:
    held = Held("finished")
    actor.scenes.append(held)
    first = await front.hear(incoming("long work"))
    await soon(held.began.wait())

    new = await front.say("/new something else")
    held.go_on.set()
    old = await front.rest(first)

    assert new.previous_id == old.id
    assert await front.thread(old) == ["user: long work", "assistant: finished"]
    assert await front.thread(new) == ["user: something else", "assistant: ok"]


async def test_a_denied_notice_is_withheld_but_a_command_is_answered(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor, sending=SendRules(default="deny")) as front:
        await front.say("hello")
        front.clock.advance(DAY)
        await front.say("good morning")
        assert await front.sent() == []

        await front.say("/send")

        assert await front.sent() == ["Replies are delivered as the configuration says."]


# --- triggers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["/new", "/reset", "/FRESH", "@clew /new", "/new@clew"])
async def test_a_trigger_alone_begins_anew_and_greets(front: Front, word: str) -> None:
    old = await front.say("hello")
    new = await front.say(word, mention="clew")

    assert new.previous_id == old.id
    assert await front.thread(new) == [f"user: {GREETING}", "assistant: ok"]
    assert await front.sent() == [
        "ok",
        "A new conversation begins. /resume goes back to the one before.",
        "ok",
    ]


async def test_the_remainder_is_said_exactly_as_typed(front: Front) -> None:
    new = await front.say("/new  [x]\n  second line ")

    assert await front.thread(new) == ["user: [x]\n  second line ", "assistant: ok"]


@pytest.mark.parametrize(
    ("text", "model", "said"),
    [
        ("/new big", "script/two", GREETING),
        ("/new script two hello", "script/two", "hello"),
        ("/new tell me", None, "tell me"),
    ],
)
async def test_new_may_name_a_model(
    front: Front, actor: Actor, text: str, model: str | None, said: str
) -> None:
    new = await front.say(text)

    assert new.model == model
    assert (await front.thread(new))[0] == f"user: {said}"


# --- who may what -------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["/new", "/status", "stop", "/send off", "/model script/two"])
@pytest.mark.parametrize("peer", [Peer("dm", "7"), GROUP])
async def test_what_a_stranger_says_is_plain_text(front: Front, text: str, peer: Peer) -> None:
    session = await front.say(text, by="7", peer=peer)

    assert await front.thread(session) == [f"user: {text}", "assistant: ok"]


@pytest.mark.parametrize(
    ("text", "obeyed"),
    [
        ("/status", True), ("/help", True), ("stop", True), ("/new hello", True), ("/resume", True),
        ("/send off", False), ("/model script/two", False), ("/memory", False), ("/undo", False),
        ("/link", False), ("/compact", False), ("/search hello", False),
    ],
)  # fmt: skip
async def test_a_paired_guest_may_a_little(
    open_front: Opener, actor: Actor, text: str, obeyed: bool
) -> None:
    async with open_front(actor, paired=("telegram:7",)) as front:
        await front.say("hello", by="7")
        session = await front.say(text, by="7")
        thread = await front.thread(session)

    assert (f"user: {text}" not in thread) is obeyed


async def test_a_guest_chooses_no_model_and_has_no_directory(
    open_front: Opener, actor: Actor
) -> None:
    async with open_front(actor, paired=("telegram:7",)) as front:
        session = await front.say("/new big plans", by="7")

    assert (session.model, session.cwd, session.project) == (None, None, None)
    assert session.preview == "big plans"


async def test_a_paired_guest_may_nothing_in_a_group(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor, paired=("telegram:7",)) as front:
        session = await front.say("/new hello", by="7", peer=GROUP)
        assert (await front.thread(session))[0] == "user: /new hello"


async def test_a_guest_can_not_resume_what_is_not_theirs(open_front: Opener, actor: Actor) -> None:
    async with open_front(actor, paired=("telegram:7",)) as front:
        secret = await front.say("the owner's secret")
        mine = await front.say("hello", by="7")
        await front.say(f"/resume {secret.id}", by="7")

        assert (await front.say("again", by="7")).id == mine.id
        assert "secret" not in "".join(await front.sent("telegram:7"))


# --- commands -----------------------------------------------------------------------------------


async def test_send_off_keeps_answers_here_and_send_on_lets_them_out(front: Front) -> None:
    await front.say("/send off")
    session = await front.say("hello")
    assert await front.thread(session) == ["user: hello", "assistant: ok"]
    assert await front.sent() == ["Replies are kept here, and not delivered."]

    await front.say("/send on")
    await front.say("hello")
    await front.say("/send inherit")

    assert await front.sent() == [
        "Replies are kept here, and not delivered.",
        "Replies are delivered.",
        "ok",
        "Replies are delivered as the configuration says.",
    ]


@pytest.mark.parametrize("word", ["/stop", "stop", "ESC", "abort", "exit", "interrupt", " Stop "])
async def test_a_stop_word_ends_the_turn_and_says_what_it_took_back(
    front: Front, actor: Actor, word: str
) -> None:
    held = Held()
    actor.scenes.append(held)
    first = await front.hear(incoming("work"))
    await soon(held.began.wait())
    await front.hear(incoming("more"))
    await front.hear(incoming("and more"))

    await front.hear(incoming(word))

    assert held.stopped
    assert await front.last() == "Stopped. Took back 2 waiting messages."
    session = await front.rest(first)
    assert await front.thread(session) == ["user: work"]


async def test_stop_tells_of_the_sub_agents_that_it_stops(front: Front, actor: Actor) -> None:
    child = Held()

    async def spawning(turn: Any) -> None:
        await turn.spawn("a part of it")

    actor.scenes += [spawning, child]
    await front.hear(incoming("work"))
    await soon(child.began.wait())

    await front.hear(incoming("stop"))

    assert child.stopped
    assert await front.last() == "Stopped, and 1 sub-agent with it."


async def test_a_word_that_only_begins_like_stop_is_a_message(front: Front) -> None:
    session = await front.say("stop it")

    assert (await front.thread(session))[0] == "user: stop it"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/status", "agent:main:telegram:group:-100"),
        ("/context", "tokens"), ("/queue", "collect"), ("/title", "title"),
        ("/help", "/resume"), ("/nonsense", "There is no command"), ("/export", "terminal"),
        ("/exit", "terminal"), ("/memory", "MEMORY.md"), ("/usage", "session"),
        ("/personality", "coach"), ("/compact", "can't be written here"),
    ],
)  # fmt: skip
async def test_a_command_is_answered_where_it_came_from(front: Front, line: str, told: str) -> None:
    session = await front.say("hello", peer=GROUP)
    before = session.message_count
    await front.say(line, peer=GROUP)
    await soon(front.reception.close())

    *_, answer = await front.sent("telegram:-100")
    assert told in answer
    assert (await front.store.get_session(session.id)).message_count == before


async def test_a_command_before_the_first_message_is_answered_too(front: Front) -> None:
    await front.say("/status")

    assert "model" in await front.last()


async def test_a_command_for_another_bot_is_not_ours(front: Front) -> None:
    session = await front.say("/status@other", mention="clew")

    assert (await front.thread(session))[0] == "user: /status@other"


async def test_a_command_does_not_wait_for_the_turn(front: Front, actor: Actor) -> None:
    held = Held()
    actor.scenes.append(held)
    await front.hear(incoming("work"))
    await soon(held.began.wait())

    await front.hear(incoming("/title Kitchen"))

    assert await front.last() == "The title is now: Kitchen"
    held.go_on.set()


async def test_retry_answers_where_it_was_asked_for(front: Front, actor: Actor) -> None:
    async def failing(_turn: Any) -> None:
        raise RuntimeError("no luck")

    actor.scenes.append(failing)
    session = await front.say("hello")
    await front.say("/retry")

    await soon(front.runtime.join(session.id))
    assert (await front.sent())[-1] == "ok"


async def test_fork_goes_on_in_the_branch(front: Front) -> None:
    old = await front.say("hello")
    await front.say("/fork Branch")

    branch = await front.say("and now")

    assert (branch.parent_id, branch.title) == (old.id, "Branch")


# --- what is known about it ---------------------------------------------------------------------


async def test_origin_and_labels_are_learned_and_never_erased(front: Front) -> None:
    await front.say(
        "hello", peer=GROUP, name="Ada", labels={"group_channel": "kitchen", "space": "Home"}
    )
    session = await front.say("again", peer=GROUP)
    session = await front.store.get_session(session.id)

    assert session.origin == {
        "label": "kitchen", "provider": "telegram", "from": "1", "to": "group:-100",
        "account": "default",
    }  # fmt: skip
    assert (session.room, session.space) == ("kitchen", "Home")
    assert session.last_route is not None
    assert session.last_route["address"] == {"chat": "-100"}


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"labels": {"conversation": "Us", "thread": "T"}, "name": "Ada"}, "Us"),
        ({"labels": {"thread": "T"}, "name": "Ada"}, "T"),
        ({"name": "Ada"}, "Ada"),
        ({"name": "  "}, "1"),
        ({"peer": GROUP, "labels": {"group_channel": "#g", "subject": "S"}}, "#g"),
        ({"peer": GROUP, "labels": {"subject": "S", "space": "P"}}, "S"),
        ({"peer": GROUP, "labels": {"space": "P"}}, "P"),
        ({"peer": GROUP, "name": "Ada"}, "-100"),
    ],
)
async def test_the_label_is_the_nearest_that_there_is(
    front: Front, fields: dict[str, Any], label: str
) -> None:
    session = await front.say("hello", **fields)

    assert (session.origin["label"], session.display_name) == (label, label)


async def test_what_nobody_asked_for_goes_where_the_session_spoke_last(front: Front) -> None:
    await front.say("hello")
    await front.say("report", key=MAIN, from_person=False, channel="cron", by="job", reply_to=None)

    assert await front.sent("telegram:1") == ["ok", "ok"]


# --- while a turn runs --------------------------------------------------------------------------


async def test_what_comes_while_a_turn_runs_is_answered_together(
    front: Front, actor: Actor
) -> None:
    held = Held("first")
    actor.scenes.append(held)
    receipt = await front.hear(incoming("one"))
    await soon(held.began.wait())
    for text in ("two", "three"):
        await front.hear(incoming(text))
    held.go_on.set()

    session = await front.rest(receipt)

    assert await front.thread(session) == [
        "user: one", "assistant: first", "user: two", "user: three", "assistant: ok",
    ]  # fmt: skip
    assert await front.sent() == ["first", "ok"]


async def test_it_waits_until_the_person_has_paused(open_front: Opener, actor: Actor) -> None:
    held = Held("first")
    actor.scenes.append(held)
    async with open_front(actor, settle_s=600) as front:
        receipt = await front.hear(incoming("one"))
        await soon(held.began.wait())
        await front.hear(incoming("two"))
        held.go_on.set()

        async def is_answered() -> bool:
            return await front.sent() == ["first"]

        await until(is_answered)
        await front.hear(incoming("three"))
        waiting = front.runtime.list_queued(receipt.session_id or "")
        assert [row.payload["text"] for row in waiting] == ["two", "three"]

        await front.hear(incoming("stop"))

        assert await front.last() == "Nothing is running. Took back 2 waiting messages."
        await front.rest(receipt)


async def test_the_pause_has_an_end(open_front: Opener, actor: Actor) -> None:
    held = Held("first")
    actor.scenes.append(held)
    async with open_front(actor, settle_s=0.01) as front:
        receipt = await front.hear(incoming("one"))
        await soon(held.began.wait())
        await front.hear(incoming("two"))
        held.go_on.set()
        session = await front.rest(receipt)

        assert (await front.thread(session))[-2:] == ["user: two", "assistant: ok"]


async def test_more_than_twenty_are_shortened_and_none_is_lost(front: Front, actor: Actor) -> None:
    held = Held("first")
    actor.scenes.append(held)
    receipt = await front.hear(incoming("go"))
    await soon(held.began.wait())
    for number in range(23):
        await front.hear(incoming(f"message {number}\n" + "x" * 300))
    held.go_on.set()

    session = await front.rest(receipt)

    rows = await front.store.get_messages(session.id)
    said = [row.content for row in rows if row.role == "user"][1:]
    first, *lines = said[0].splitlines()
    assert first == "(3 earlier messages, shortened: too many were waiting.)"
    assert [line[:12] for line in lines] == [f"- message {number} "[:12] for number in range(3)]
    assert all(len(line) < 210 for line in lines)
    assert len(said) == 21
    assert await front.store.list_inbound() == ()
    assert len(actor.turns) == 2


@pytest.mark.parametrize("mode", ["followup", "interrupt"])
async def test_the_mode_that_was_chosen_is_used(front: Front, actor: Actor, mode: str) -> None:
    await front.say(f"/queue {mode}")
    held = Held("first")
    actor.scenes.append(held)
    receipt = await front.hear(incoming("one"))
    await soon(held.began.wait())
    await front.hear(incoming("two"))
    await front.hear(incoming("three"))
    held.go_on.set()
    await front.rest(receipt)

    assert held.stopped is (mode == "interrupt")
    assert len(actor.turns) == (3 if mode == "followup" else 2)
