"""One session, several processes: who has it open, who may write, and what the others see."""

from __future__ import annotations

import os
import signal
import socket
import time
import uuid
from contextlib import closing

import apsw
import pytest

from clew.core.session import Session
from clew.core.turn import STALE_HEARTBEAT_MS
from tests.crash.conftest import Home, Process, Terminal, is_there

PAUSED = """
import asyncio, sys
from clew.config import load
from clew.core.live_events import Notice, TextDelta, TurnEnded
from clew.core.channels.incoming import message_for
from clew.runtime.runtime import Runtime
from clew.wiring import open_configured_store, House

session_id, renew_ms = sys.argv[1], int(sys.argv[2])
mine = []

async def show(events):
    async for event in events:
        match event:
            case Notice(text):
                print("NOTICE", text, flush=True)
            case TextDelta(text):
                print("TEXT", text, flush=True)
            case TurnEnded(turn, answers) if set(mine) & set(answers):
                print("ENDED", turn.status, flush=True)
                return

async def talk():
    config = load()
    store = await open_configured_store(config)
    house = House(config, store)
    runtime = Runtime(
        store, house.runtime.agent, hooks=house.runtime.hooks, remember_rule=None,
        lease_ms=500, renew_ms=renew_ms,
    )
    with runtime.watch(session_id, 0) as events:
        showing = asyncio.create_task(show(events))
        session = await store.get_session(session_id)
        ticket = await runtime.accept(message_for(session, "Be paused", channel="cli"))
        mine.append(ticket.inbound.id)
        await showing
    await runtime.close()
    await house.close()
    await store.close()

asyncio.run(talk())
"""


def open_chat(home: Home) -> Terminal:
    """A terminal that has the session open."""
    terminal = home.open("chat", "--plain")
    terminal.wait_until(lambda: terminal.output.endswith("> "), "a prompt")
    return terminal


def refusal(session: Session, terminal: Process, host: str | None = None) -> str:
    """The sentence of the spec, up to the time of day."""
    return (
        f"Session {session.id} is open in another terminal "
        f"(pid {terminal.pid}, host {host or socket.gethostname()}, since "
    )


def write_attachment(home: Home, session: Session, *, host: str, pid: int, beat_at: int) -> None:
    """The row of a process that we don't have to start."""
    with closing(apsw.Connection(str(home.file))) as connection:
        connection.execute(
            """INSERT INTO attachments
                 (session_id, host, process, pid, started_at, terminal, since, beat_at)
               VALUES (?, ?, ?, ?, ?, 'pts-9', ?, ?)""",
            (session.id, host, uuid.uuid4().hex, pid, beat_at, beat_at, beat_at),
        )


def now() -> int:
    return time.time_ns() // 1_000_000


def test_a_second_terminal_is_refused_and_may_branch_or_look(home: Home) -> None:
    session = home.add("Roses")
    terminal = open_chat(home)
    code, output = home.run("chat", "--plain")
    assert code == 3
    begin, rest = refusal(session, terminal), "). Use --fork to branch it, or --read-only to look."
    line = next(line for line in output.splitlines() if begin in line)
    told = line.partition(begin)[2]
    assert told[2] == ":"
    assert told[5:] == rest
    assert "Traceback" not in output

    code, output = home.run("chat", "--plain", "--fork", stdin="Tulips\n")
    assert (code, "Fine." in output) == (0, True), output
    code, output = home.run("chat", "--plain", "--read-only", stdin="Violets\n")
    assert "About Roses." in output
    assert "open read-only" in output
    assert [row.content for row in home.thread(session)] == ["Roses", "About Roses."]

    terminal.type("\x04")
    assert terminal.finish() == 0
    code, output = home.run("chat", "--plain", stdin="Lilies\n")
    assert (code, "Took over" in output) == (0, False), output


def test_a_killed_holder_is_taken_over_and_a_line_says_so(home: Home) -> None:
    home.answer(answers=[{"text": "Half of it.", "hold": "/nonexistent/never"}])
    terminal = home.open("chat", "--plain")
    terminal.say("Begin")
    terminal.wait_for("Half of")
    terminal.signal(signal.SIGKILL)
    terminal.kill()
    home.answer(answers=["All of it."])
    after = home.open("chat", "--plain")
    after.wait_for(f"Took over from a terminal that is gone (pid {terminal.pid}).")
    after.wait_for("The last turn was interrupted. /retry goes on.")
    after.say("/retry")
    after.wait_for("All of it.")
    after.wait_until(lambda: after.output.endswith("> "), "a prompt")
    after.type("\x04")
    assert after.finish() == 0
    session = home.session()
    assert [turn.status for turn in home.turns(session)] == ["interrupted", "done"]
    assert [row.content for row in home.thread(session)] == ["Begin", "All of it."]


def test_a_message_that_a_killed_process_only_accepted_is_offered(home: Home) -> None:
    session = home.add("Roses")
    with closing(apsw.Connection(str(home.file))) as connection:
        connection.execute(
            """INSERT INTO inbox (id, channel, account, key, session_id, person, payload, status,
                 received_at, claimant, claimed_at)
               VALUES ('left', 'cli', '', 'k', ?, 'owner', '{"text": "Tulips"}', 'claimed', ?, ?, ?)
            """,
            (session.id, now(), f"{uuid.uuid4().hex}@{socket.gethostname()}#left", now()),
        )
    terminal = home.open("chat", "--plain")
    terminal.wait_for('Not answered yet: "Tulips". Answer it now? [y/N] ')
    assert len(home.thread(session)) == 2
    terminal.type("y\n")
    terminal.wait_for("Fine.")
    terminal.wait_until(lambda: terminal.output.endswith("> "), "a prompt")
    assert [row.content for row in home.thread(session)][2:] == ["Tulips", "Fine."]


def test_a_stranger_with_the_pid_of_a_dead_holder_does_not_hold(home: Home) -> None:
    session = home.add("Roses")
    host = socket.gethostname()
    write_attachment(home, session, host=host, pid=os.getpid(), beat_at=now())
    assert is_there(os.getpid())
    code, output = home.run("chat", "--plain", stdin="Tulips\n")
    assert code == 0
    assert f"Took over from a terminal that is gone (pid {os.getpid()})." in output
    assert "Fine." in output


def test_a_holder_on_another_host_lives_by_its_heartbeat(home: Home) -> None:
    session = home.add("Roses")
    write_attachment(home, session, host="elsewhere", pid=4242, beat_at=now())
    code, output = home.run("chat", "--plain", stdin="Tulips\n")
    assert code == 3
    assert f"Session {session.id} is open in another terminal (pid 4242, host elsewhere" in output
    with closing(apsw.Connection(str(home.file))) as connection:
        connection.execute("UPDATE attachments SET beat_at = ?", (now() - STALE_HEARTBEAT_MS,))
    code, output = home.run("chat", "--plain", stdin="Tulips\n")
    assert code == 0
    assert "Took over from a terminal that is gone (pid 4242)." in output


def test_a_question_to_an_open_session_is_answered_and_seen_in_its_terminal(home: Home) -> None:
    home.add("Roses")
    terminal = open_chat(home)
    code, output = home.run("ask", "-c", "Tulips?")
    assert (code, output.strip()) == (0, "Fine.")
    terminal.wait_for("Tulips?")
    terminal.wait_for("Fine.")
    terminal.say("Lilies?")
    terminal.wait_for("Fine.", count=2)
    spoken = [row.content for row in home.thread(home.session())][2:]
    assert spoken == ["Tulips?", "Fine.", "Lilies?", "Fine."]


def test_a_question_behind_another_ones_prints_its_own_answer_only(home: Home) -> None:
    """The other turn's messages and its end come by while the question waits."""
    session = home.add("Roses")
    gate = home.work / "gate"
    home.answer(rules=[{"when": "Slowly$", "answers": [{"text": "Not yours.", "hold": str(gate)}]}])
    first = home.start("ask", "-c", "--json", "Slowly")
    first.end_input()
    first.wait_for("Not")
    second = home.start("ask", "-c", "Who is there?")
    second.end_input()
    second.wait_for("Another process is busy with this session")
    gate.touch()
    assert first.finish() == 0
    assert second.finish() == 0
    assert "Fine." in second.output
    assert "Not yours." not in second.output
    assert [row.content for row in home.thread(session)][2:] == [
        "Slowly", "Not yours.", "Who is there?", "Fine.",
    ]  # fmt: skip


@pytest.mark.parametrize("writes", [True, False])
def test_a_paused_holder_that_wakes_up_after_a_takeover_can_not_write(
    home: Home, writes: bool
) -> None:
    """`writes`: it wakes up with an answer to record; else it finds out when it renews."""
    session = home.add("Roses")
    gate = home.work / "gate"
    home.answer(
        rules=[{"when": "Be paused$", "answers": [{"text": "Too late.", "hold": str(gate)}]}]
    )
    renew = "600000" if writes else "1000"
    paused = home.start(session.id, renew, program=PAUSED)
    paused.wait_for("TEXT")
    paused.pause(home.file)
    if writes:
        gate.touch()
    code, output = home.run("ask", "-c", "Who is there?")
    assert (code, output.strip().splitlines()[-1]) == (0, "Fine."), output
    before = home.thread(session)
    paused.signal(signal.SIGCONT)
    paused.wait_for("NOTICE Another process has taken this session over")
    paused.wait_for("ENDED interrupted")
    assert paused.finish() == 0, paused.output
    assert home.thread(session) == before
    assert [row.content for row in before][2:] == ["Be paused", "Who is there?", "Fine."]
    assert [turn.status for turn in home.turns(session)][1:] == ["interrupted", "done"]
