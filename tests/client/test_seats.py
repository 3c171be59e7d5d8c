"""What a terminal asks of a gateway: sitting down, going elsewhere, commands, looking around."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from clew.adapters.conversation import Conversation
from clew.api import commands as commands_rows
from clew.api import models as models_rows
from clew.api import seats as seats_rows
from clew.api import sessions as sessions_rows
from clew.api.commands import CommandReply, RunCommand
from clew.api.operation import NoParams
from clew.api.seats import (
    BeginSession,
    LeaveSeat,
    LocateSeat,
    Seated,
    SwitchSeat,
    TerminalPlace,
    Wanted,
)
from clew.api.sessions import (
    FindSessions,
    ListNames,
    ListStates,
    OneSession,
    SearchMessages,
    SessionView,
)
from clew.client.client import Client
from clew.errors import Forbidden, InvalidInput, SessionNotFound
from clew.ports import LiveTurn
from tests.client.conftest import Place, outline
from tests.runtime.conftest import soon

GUEST = "person:ann"
HERE = TerminalPlace(cwd="/home/me/api", project="/home/me/api", basename="api", device=1, inode=2)


async def begin(client: Client, **wanted: str) -> SessionView:
    params = BeginSession(where=HERE, key="cli:api", **wanted)  # type: ignore[arg-type]
    return await client.do(seats_rows.BEGIN, params)


async def run(client: Client, line: str, session: str | None = None) -> CommandReply:
    params = RunCommand(line=line, session=session, key="cli:api", where=HERE)
    return await client.do(commands_rows.RUN, params)


async def switch(client: Client, session: str | None, **how: object) -> Seated:
    params = SwitchSeat(where=HERE, key="cli:api", session=session, **how)  # type: ignore[arg-type]
    return await client.do(seats_rows.SWITCH, params)


# --- sitting down -----------------------------------------------------------------------------


async def test_a_directory_leads_to_its_session_once_it_has_one(client: Client) -> None:
    params = LocateSeat(where=HERE, continues=True)
    before = await client.do(seats_rows.LOCATE, params)
    made = await begin(client, title="Plans", thinking="low")
    after = await client.do(seats_rows.LOCATE, params)
    assert (before.key, before.session) == ("cli:api", None)
    assert (made.title, made.title_by, made.thinking, made.cwd, made.platform) == (
        "Plans", "user", "low", "/home/me/api", "cli",
    )  # fmt: skip
    assert after.session is not None
    assert after.session.id == made.id
    assert after.continued is None, "nothing was said in it yet"


async def test_a_switch_goes_there_and_takes_the_key_along(place: Place, client: Client) -> None:
    first, second = await begin(client), await begin(client)
    seated = await switch(client, first.id, previous=second.id)
    assert seated.session is not None
    assert (seated.session.id, seated.previous_id) == (first.id, second.id)
    led = await place.store.find_route("cli:api")
    assert led is not None
    assert led.id == first.id
    nothing = await switch(client, None, previous=first.id, reason="new")
    assert nothing.session is None
    assert await place.store.find_route("cli:api") is None


async def test_a_fork_is_gone_to_with_its_title(place: Place, client: Client) -> None:
    source = await place.talked(client, "hello", session=(await begin(client)).id)
    seated = await switch(client, source, forks=True, title="A branch", previous=source)
    assert seated.session is not None
    assert (seated.session.parent_id, seated.session.title) == (source, "A branch")
    assert seated.reason == "fork"


async def test_a_person_goes_on_with_a_fork_of_a_frameworks_session(
    place: Place, client: Client
) -> None:
    talk = Conversation(place.store, "frame:7", framework="frame", native_id="7")
    message = await talk.add("user", "kept by frame")
    seated = await switch(client, message.session_id)
    assert seated.session is not None
    assert (seated.session.parent_id, seated.reason) == (message.session_id, "fork")
    assert seated.notices == ("frame goes on with that session itself; this is a fork of it.",)

    again = await switch(client, seated.session.id)
    looked = await switch(client, message.session_id, read_only=True)
    assert again.session is not None
    assert looked.session is not None
    assert (again.session.id, looked.session.id) == (seated.session.id, message.session_id)


async def test_a_fork_of_a_guests_session_is_the_one_who_forks(
    place: Place, client: Client
) -> None:
    guest = await place.client("telegram:5", "write")
    theirs = await place.session(person="telegram:5")
    for fork in (
        (await switch(client, theirs.id, forks=True)).session,
        (await run(client, "/fork Second", theirs.id)).session,
        await client.sessions.fork(theirs.id),
    ):
        assert fork is not None
        assert (fork.person, fork.parent_id) == ("owner", theirs.id)
        with pytest.raises(SessionNotFound):
            await guest.sessions.get(fork.id)
    own = await guest.sessions.fork(theirs.id)
    assert own.person == "telegram:5"


async def test_before_the_owner_speaks_it_is_said_who_reads_along(
    place: Place, client: Client
) -> None:
    theirs = await place.session(person="telegram:5", display_name="Eve\x1b[2J")
    seated = await switch(client, theirs.id)
    told = "This session is Eve (telegram:5)'s, who can read what you say here."
    assert seated.notices == (f"{told} /fork goes on in one of your own.",)
    assert (await switch(client, theirs.id, forks=True)).notices == ()
    assert (await switch(client, theirs.id, read_only=True)).notices == ()


@pytest.mark.parametrize("others_wait", [False, True], ids=["alone", "others wait"])
async def test_leaving_stops_a_turn_that_is_ours_and_strands_nobody(
    place: Place, client: Client, others_wait: bool
) -> None:
    endless, went_on = asyncio.Event(), asyncio.Event()

    async def wait(_turn: LiveTurn) -> None:
        endless.set()
        await asyncio.Event().wait()

    async def answer(turn: LiveTurn) -> None:
        went_on.set()
        await turn.finish()

    place.actor.scenes = [wait, answer]
    session = await begin(client)
    await client.chat.send("on and on", session=session.id)
    await soon(endless.wait())
    waiting = await client.chat.send("and then", session=session.id)
    mine = () if others_wait else (waiting.inbound,)
    params = LeaveSeat(where=HERE, session=session.id, stops=True, waiting=mine)
    assert (await client.do(seats_rows.LEAVE, params)).stopped
    if others_wait:
        await soon(went_on.wait())
    else:
        await soon(place.runtime.join(session.id))
        assert [each.text for each in await client.queue.list(session.id)] == ["and then"]
        seated = await switch(client, session.id, reason="startup")
        assert [each.id for each in seated.unanswered] == [waiting.inbound]
        assert await client.queue.drop(session.id) == (waiting.inbound,)


async def test_only_the_owner_has_terminals_here(place: Place, client: Client) -> None:
    session = await begin(client)
    guest = await place.client(GUEST, "write")
    for attempt in (
        guest.do(seats_rows.LOCATE, LocateSeat(where=HERE)),
        begin(guest),
        switch(guest, session.id),
        guest.do(seats_rows.LEAVE, LeaveSeat(where=HERE, session=session.id)),
        guest.do(models_rows.LIST, NoParams()),
    ):
        with pytest.raises(Forbidden):
            await attempt


# --- commands ---------------------------------------------------------------------------------


async def test_a_command_answers_and_shows_the_session_as_it_is_now(client: Client) -> None:
    session = await begin(client)
    reply = await run(client, "/title Plans", session.id)
    assert reply.text == "The title is now: Plans"
    assert reply.session is not None
    assert (reply.session.id, reply.session.title) == (session.id, "Plans")
    refused = await run(client, "/mode sideways", session.id)
    assert refused.is_error


async def test_a_command_that_begins_a_turn_says_so(place: Place, client: Client) -> None:
    session = await place.talked(client, "hello", session=(await begin(client)).id)
    reply = await run(client, "/retry", session)
    assert reply.begins
    await soon(place.runtime.join(session))
    messages = (await client.sessions.messages(session)).messages
    assert outline(messages) == ["user: hello", "assistant: ok"]


async def test_commands_that_go_elsewhere_tell_where_to(place: Place, client: Client) -> None:
    session = await place.talked(client, "hello", session=(await begin(client)).id)
    await run(client, "/title First", session)
    forked = await run(client, "/fork Second", session)
    assert forked.switched
    assert forked.session is not None
    assert forked.session.parent_id == session
    meant = await run(client, "/resume First", forked.session.id)
    assert meant.open is not None
    assert meant.open.id == session
    anything = await run(client, "/resume", forked.session.id)
    assert anything.pick == ()
    new = await run(client, "/new", session)
    assert new.switched
    assert new.session is None


async def test_what_is_no_command_or_not_for_here_is_refused(client: Client) -> None:
    session = await begin(client)
    for line in ("hello", "/export x.md", "/exit"):
        with pytest.raises(InvalidInput):
            await run(client, line, session.id)
    with pytest.raises(InvalidInput):
        await client.do(commands_rows.RUN, RunCommand(line="/status"))
    assert (await run(client, "/nonsense", session.id)).is_error


async def test_a_guest_may_what_guests_may_and_in_their_own_sessions(
    place: Place, client: Client
) -> None:
    guest = await place.client(GUEST, "chat")
    own = await place.talked(guest, "hello")
    params = RunCommand(line="/status", session=own)
    assert own in (await guest.do(commands_rows.RUN, params)).text
    with pytest.raises(Forbidden):
        await run(guest, "/memory", own)
    with pytest.raises(SessionNotFound):
        await run(guest, "/status", (await begin(client)).id)


# --- looking ----------------------------------------------------------------------------------


async def test_names_states_todos_and_searches_are_what_one_may_see(
    place: Place, client: Client
) -> None:
    guest = await place.client(GUEST, "chat")
    theirs = await place.talked(guest, "hello zebra")
    mine = await place.talked(client, "hello zebra", session=(await begin(client)).id)
    ids = ListStates(ids=f"{mine},{theirs}")
    for who, seen in ((client, {mine, theirs}), (guest, {theirs})):
        names = await who.do(sessions_rows.NAMES, ListNames())
        assert {each.id for each in names.names} == seen
        found = await who.do(sessions_rows.SEARCH, SearchMessages(q="zeb", typing=True))
        assert {each.session_id for each in found.hits} == seen
        assert (await who.do(sessions_rows.STATES, ids)).states.keys() == seen
    here = await client.do(sessions_rows.NAMES, ListNames(cwd="/home/me/api"))
    assert [each.id for each in here.names] == [mine]
    todos = await client.do(sessions_rows.TODOS, OneSession(id=mine))
    assert todos.todos == ()
    with pytest.raises(SessionNotFound):
        await guest.do(sessions_rows.TODOS, OneSession(id=mine))


async def test_all_that_may_be_meant_is_found(client: Client) -> None:
    first, second = await begin(client, title="Login bug"), await begin(client, title="Login page")
    both = await client.do(sessions_rows.FIND, FindSessions(value="login"))
    assert {each.id for each in both.sessions} == {first.id, second.id}
    with pytest.raises(SessionNotFound):
        await client.do(sessions_rows.FIND, FindSessions(value="nothing of the kind"))


async def test_a_stop_may_leave_what_waits(place: Place, client: Client) -> None:
    endless = asyncio.Event()

    async def wait(_turn: LiveTurn) -> None:
        endless.set()
        await asyncio.Event().wait()

    place.actor.scenes = [wait]
    session = await begin(client)
    await client.chat.send("on and on", session=session.id)
    await soon(endless.wait())
    await client.chat.send("and then", session=session.id)
    stopped = await client.sessions.stop(session.id, queue=False)
    assert (stopped.stopped, stopped.dropped) == (True, ())
    await soon(place.runtime.join(session.id))
    messages = (await client.sessions.messages(session.id)).messages
    assert outline(messages)[-2:] == ["user: and then", "assistant: ok"]


# --- commands before there is a session, and in one that is only looked at ---------------------


async def test_what_is_set_before_there_is_a_session_goes_to_and_fro(
    place: Place, client: Client
) -> None:
    async def say(line: str, wanted: Wanted) -> CommandReply:
        params = RunCommand(line=line, key="cli:api", where=HERE, wanted=wanted)
        reply = await client.do(commands_rows.RUN, params)
        assert not reply.is_error, reply.text
        assert reply.session is None
        return reply

    wanted = Wanted(personality="coach")
    for line in (
        "/title Mine", "/pin", "/model script/two", "/thinking low", "/mode plan", "/send off",
    ):  # fmt: skip
        reply = await say(line, wanted)
        assert reply.wanted is not None
        wanted = reply.wanted
    assert wanted == Wanted(
        title="Mine", pinned=True, personality="coach", model="script/two", thinking="low",
        mode="plan", send_policy="deny",
    )  # fmt: skip
    assert (await say("/title", wanted)).text == "The title is: Mine"
    assert "script/two" in (await say("/status", wanted)).text
    assert (await say("/pin off", wanted)).wanted == msgspec.structs.replace(wanted, pinned=False)
    assert (await place.store.stats()).sessions == 0


async def test_a_command_that_needs_a_session_says_so(client: Client) -> None:
    params = RunCommand(line="/undo", key="cli:api", where=HERE)
    reply = await client.do(commands_rows.RUN, params)
    assert (reply.is_error, reply.text) == (True, "There is no session yet; say something first.")


@pytest.mark.parametrize("line", ["/title New", "/undo", "/stop", "/compact", "/queue steer"])
async def test_a_session_that_is_only_looked_at_is_not_changed(client: Client, line: str) -> None:
    session = await begin(client)
    params = RunCommand(line=line, session=session.id, read_only=True)
    reply = await client.do(commands_rows.RUN, params)
    assert reply.is_error
    assert "read-only" in reply.text
    shown = RunCommand(line="/title", session=session.id, read_only=True)
    assert not (await client.do(commands_rows.RUN, shown)).is_error
