"""What a token's scopes decide: who may call, which tools a turn has, what shares a turn."""

from __future__ import annotations

import pytest

from clew.api.approvals import DECIDE, DecideApproval
from clew.api.commands import RUN, CommandReply, RunCommand
from clew.api.handlers.parts import Caller
from clew.api.table import OPERATIONS
from clew.client.client import Client
from clew.core.message import ToolCall
from clew.core.tokens import SCOPES, Scope, Scopes, covers, has_own_tools
from clew.core.turn import ApprovalScope
from clew.errors import Forbidden, InvalidInput
from clew.ports import LiveTurn
from tests.client.conftest import Place
from tests.runtime.conftest import Held, added, inbound, soon, until

GUEST = "telegram:5"


async def run(client: Client, line: str, session: str) -> CommandReply:
    return await client.do(RUN, RunCommand(line=line, session=session))


# --- the table -------------------------------------------------------------------------------
@pytest.mark.parametrize("person", ["owner", GUEST])
def test_an_operation_is_for_whom_its_row_names(person: str) -> None:
    for operation in OPERATIONS:
        for scope in SCOPES:
            caller = Caller(person, (scope,))
            allowed = covers((scope,), operation.scope) and (
                person == "owner" or operation.who == "guest"
            )
            try:
                caller.check(operation)
            except Forbidden:
                assert not allowed, (operation.name, scope)
            else:
                assert allowed, (operation.name, scope)


def test_what_acts_as_the_owner_later_or_lets_others_in_needs_admin() -> None:
    admins = {each.name for each in OPERATIONS if each.scope == "admin"}
    assert {"cron.add", "cron.remove", "cron.run", "tokens.create", "pairings.decide"} <= admins
    assert {each.who for each in OPERATIONS if each.scope in ("approve", "store", "admin")} == {
        "owner"
    }


async def test_scopes_that_answer_for_the_owner_are_the_owners(client: Client) -> None:
    for scope in ("approve", "store", "admin"):
        with pytest.raises(InvalidInput, match=f"scope {scope}"):
            await client.tokens.create("theirs", ("read", scope), person=GUEST)
    made = await client.tokens.create("mine", ("read", "write", "approve"))
    assert made.token.scopes == ("write", "approve")
    theirs = await client.tokens.create("theirs", ("write",), person=GUEST)
    assert theirs.token.scopes == ("write",)


# --- turns -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("person", "scopes"),
    [
        ("owner", ("admin",)),
        ("owner", ("write", "approve")),
        ("owner", ("chat",)),
        ("owner", ("chat", "approve")),
        (GUEST, ("write",)),
    ],
)
async def test_a_turn_carries_the_scopes_that_it_was_accepted_with(
    place: Place, person: str, scopes: Scopes
) -> None:
    await place.talked(await place.client(person, scopes), "hello")
    (turn,) = place.actor.turns
    assert (turn.person, turn.scopes) == (person, scopes)


async def test_a_turn_under_a_key_carries_them_too(place: Place) -> None:
    await place.talked(await place.client(scope="chat"), "hello", key="agent:main:main")
    (turn,) = place.actor.turns
    assert (turn.scopes, has_own_tools(turn.person, turn.scopes)) == (("chat",), False)


@pytest.mark.parametrize("mode", ["steer", "collect"])
async def test_a_chat_tokens_message_does_not_ride_in_the_owners_turn(
    place: Place, client: Client, mode: str
) -> None:
    """The owner's turn has all tools: what another token says has no place in it."""
    session = await place.talked(client, "zero")
    await run(client, f"/queue {mode}", session)
    talker = await place.client(scope="chat")
    held = Held()

    async def scene(turn: LiveTurn) -> None:
        held.began.set()
        await held.go_on.wait()
        await turn.take_steering()
        await turn.finish(added(turn, "done"))

    place.actor.scenes.append(scene)
    await client.chat.send("one", session=session)
    await soon(held.began.wait())
    await client.chat.send("two", session=session)
    await talker.chat.send("run rm -rf for me", session=session)
    await client.chat.send("three", session=session)
    held.go_on.set()
    await soon(place.runtime.join(session))

    messages = (await client.sessions.messages(session)).messages
    said = {each.content: each.turn_id for each in messages if each.role == "user"}
    turns = {turn.id: turn.scopes for turn in place.actor.turns}
    assert {text: turns[turn or ""] for text, turn in said.items()} == {
        "zero": ("admin",), "one": ("admin",), "two": ("admin",), "three": ("admin",),
        "run rm -rf for me": ("chat",),
    }  # fmt: skip
    assert (said["two"] == said["one"]) is (mode == "steer")


async def test_a_retry_has_the_scopes_of_who_asks_for_it(place: Place, client: Client) -> None:
    session = await place.talked(client, "hello")
    talker = await place.client(scope="chat")
    assert not (await run(talker, "/retry", session)).is_error
    await soon(place.runtime.join(session))
    assert [turn.scopes for turn in place.actor.turns] == [("admin",), ("chat",)]


async def test_a_command_that_says_something_has_the_scopes_of_its_token(
    place: Place, client: Client
) -> None:
    session = await place.talked(client, "hello")
    await run(await place.client(scope="chat"), "/new do it", session)

    async def has_begun() -> bool:
        return len(place.actor.turns) == 2

    await until(has_begun)
    assert place.actor.turns[1].scopes == ("chat",)


async def test_a_message_that_waits_is_run_by_who_could_have_sent_it(
    place: Place, client: Client
) -> None:
    """What the owner said in a terminal that died is not for a lesser token to start."""

    session = await place.session()
    row = inbound(session, "rm -rf build")
    await place.store.accept(row)
    for scope in ("chat", "write"):
        with pytest.raises(Forbidden, match="scope admin"):
            await (await place.client(scope=scope)).queue.run(row.id)
    assert place.actor.turns == []
    await client.queue.run(row.id)
    await soon(place.runtime.join(session.id))
    assert place.actor.turns[0].scopes == ("admin",)


# --- approvals -------------------------------------------------------------------------------
class Asking:
    """A turn that asks before it uses a tool."""

    def __init__(self) -> None:
        self.answers: list[tuple[str | None, ApprovalScope | None]] = []

    async def __call__(self, turn: LiveTurn) -> None:
        call = ToolCall(id="c1", name="shell")
        answer = await turn.ask(call, {"summary": "ls", "rule": "shell:ls"})
        self.answers.append((answer.decision, answer.scope))
        await turn.finish(added(turn, "done"))


async def ask(place: Place, client: Client, key: str) -> tuple[Asking, str, str]:
    """A question that waits: the turn, its session and the approval."""
    place.actor.scenes.append(asking := Asking())
    sent = await client.chat.send("do it", key=key)

    async def is_asked() -> bool:
        return bool(await client.approvals.list())

    await until(is_asked)
    (approval,) = await client.approvals.list()
    return asking, sent.session, approval.id


@pytest.mark.parametrize("scope", ["read", "chat", "write", "store"])
async def test_who_may_not_approve_answers_in_no_way(
    place: Place, client: Client, scope: Scope
) -> None:
    key = "agent:main:main"
    asking, session, approval = await ask(place, client, key)
    caller = await place.client(scope=scope)
    with pytest.raises(Forbidden, match="scope approve"):
        await caller.do(DECIDE, DecideApproval(id=approval, decision="yes"))
    for line in ("/approve", "/deny"):
        with pytest.raises(Forbidden, match="scope approve"):
            await run(caller, line, session)
    if covers((scope,), "chat"):
        for text in ("/approve", f"/approve once {approval}", "yes", "y"):
            await caller.chat.send(text, key=key)
    assert asking.answers == []
    assert (await run(client, "/approve", session)).text.startswith("Allowed")
    await soon(place.runtime.join(session))
    assert asking.answers == [("yes", "once")]


async def test_always_over_the_api_repeats_the_rule_that_it_writes(
    place: Place, client: Client
) -> None:
    asking, session, approval = await ask(place, client, "agent:main:main")
    decided = await client.approvals.decide(approval, "yes", scope="always", rule="shell:ls")
    assert decided.scope == "always"
    await soon(place.runtime.join(session))
    assert asking.answers == [("yes", "always")]


async def test_who_may_approve_answers_but_makes_no_rule_for_always(
    place: Place, client: Client
) -> None:
    key = "agent:main:main"
    asking, session, approval = await ask(place, client, key)
    approver = await place.client(scope="approve")
    with pytest.raises(Forbidden, match="scope admin"):
        await approver.do(DECIDE, DecideApproval(id=approval, decision="yes", scope="always"))
    reply = await run(approver, "/approve always", session)
    assert reply.is_error
    assert "scope admin" in reply.text
    terminal = await place.client(scope=("write", "approve"))
    await terminal.chat.send("/approve always", key=key)
    assert asking.answers == []

    with pytest.raises(InvalidInput, match="`rule`: `shell:ls`"):
        await client.approvals.decide(approval, "yes", scope="always")
    with pytest.raises(InvalidInput, match="`rule`: `shell:ls`"):
        await client.approvals.decide(approval, "yes", scope="always", rule="shell")
    assert asking.answers == []

    reply = await run(approver, "/approve session", session)
    assert reply.text == "Allowed for this session: shell:ls."
    await soon(place.runtime.join(session))
    assert asking.answers == [("yes", "session")]


# --- reading ---------------------------------------------------------------------------------
async def test_who_only_reads_looks_and_changes_nothing(place: Place, client: Client) -> None:
    session = await place.talked(client, "hello")
    before = await place.store.get_session(session)
    reader = await place.client(scope="read")
    for line in ("/status", "/help", "/todos", "/search hello", "/usage"):
        assert not (await run(reader, line, session)).is_error, line
    for line in ("/new", "/retry", "/stop", "/queue steer", "/verbose on", "/title x"):
        with pytest.raises(Forbidden):
            await run(reader, line, session)
    with pytest.raises(Forbidden):
        await reader.chat.send("hello", session=session)
    after = await place.store.get_session(session)
    assert (after.metadata, after.head) == (before.metadata, before.head)
    assert len((await client.sessions.list()).sessions) == 1


async def test_a_session_can_be_changed_without_answering_for_tools(
    place: Place, client: Client
) -> None:
    session = await place.talked(client, "hello")
    writer = await place.client(scope="write")
    await writer.sessions.update(session, title="Mine")
    with pytest.raises(Forbidden, match="scope approve"):
        await writer.do(DECIDE, DecideApproval(id="abc", decision="yes"))
    approver = await place.client(scope="approve")
    with pytest.raises(Forbidden, match="scope write"):
        await approver.sessions.update(session, title="Theirs")
    with pytest.raises(Forbidden, match="scope chat"):
        await approver.chat.send("hello", session=session)
    both = await place.client(scope=("write", "approve"))
    await both.sessions.update(session, title="Ours")
    for attempt in (both.cron.run("x"), both.cron.remove("x"), both.tokens.list()):
        with pytest.raises(Forbidden, match="scope admin"):
            await attempt
