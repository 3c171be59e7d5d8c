"""A gateway as it is wired, with a real shell; its owner, on a channel, is asked first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from clew.api.handlers.parts import Caller
from clew.api.local import Calls
from clew.api.table import get_operation
from clew.config import Config, load
from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.replies import ReplyTo
from clew.core.channels.routing import Arrival
from clew.core.channels.routing import Peer as Place
from clew.testing.channels import Peer, PeerChannel, open_peer
from clew.wiring import (
    House,
    open_configured_store,
    run_errands,
)
from tests.runtime.conftest import soon

MAKE = {"tool_calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}
SCRIPT = {
    "rules": [
        {"when": "make it", "answers": [MAKE, "Well."]},
        {"when": "insist", "answers": [MAKE, MAKE, "Well."]},
    ],
    "answers": [{"text": "You said: ", "echo": "user"}],
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    monkeypatch.chdir(work)
    script = home / "script.json"
    script.write_bytes(msgspec.json.encode(SCRIPT))
    (home / "config.toml").write_text(
        f"""model = "script/x"
owners = ["peer:1"]
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
""",
        encoding="utf-8",
    )
    return load(home=str(home), environ={})


@asynccontextmanager
async def serving(config: Config, peer: Peer) -> AsyncIterator[Calls]:
    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config)
        open_things.push_async_callback(store.close)
        house = House(config, store, settle_s=0.0)
        open_things.push_async_callback(house.close)
        await open_things.enter_async_context(run_errands(house, [PeerChannel(peer.port)]))
        yield Calls(house)


def said(text: str, number: int) -> Incoming:
    return Incoming(
        arrival=Arrival(channel="peer", peer=Place("dm", "1")),
        sender=Sender("1"),
        text=text,
        external_id=str(number),
        reply_to=ReplyTo(channel="peer", key="peer:1"),
    )


def is_made() -> bool:
    return Path("made").exists()


@pytest.mark.parametrize(("word", "allowed"), [("Yes!", True), ("no", False)])
async def test_a_command_runs_when_its_owner_says_so_on_the_channel(
    config: Config, word: str, allowed: bool
) -> None:
    async with open_peer() as peer, serving(config, peer) as calls:
        await soon(peer.bring(said("make it", 1)))
        await soon(peer.wait_for(1))
        assert peer.taken[0].startswith("May I use shell? Run: touch made\n")
        assert not is_made()
        waiting = await calls.call(get_operation("approvals.list"), {}, Caller())
        assert [each.tool_name for each in waiting.approvals] == ["shell"]

        await soon(peer.bring(said(word, 2), times=3))
        await soon(peer.wait_for(3))

        reply = "Allowed, once." if allowed else "Not allowed."
        assert sorted(peer.taken[1:]) == sorted([reply, "Well."])
        assert is_made() == allowed


async def test_a_gateway_that_starts_again_asks_anew_and_does_it_once(config: Config) -> None:
    async with open_peer() as peer:
        async with serving(config, peer):
            await soon(peer.bring(said("insist", 1)))
            await soon(peer.wait_for(1))
        async with serving(config, peer):
            await soon(peer.wait_for(2))
            assert peer.taken[1] == peer.taken[0]
            assert not is_made()
            await soon(peer.bring(said("yes", 2)))
            await soon(peer.wait_for(4))
            assert is_made()
        assert sorted(peer.taken[2:]) == ["Allowed, once.", "Well."]


async def test_a_yes_to_what_was_asked_before_a_restart_approves_nothing(config: Config) -> None:
    async with open_peer() as peer:
        async with serving(config, peer):
            await soon(peer.bring(said("make it", 1)))
            await soon(peer.wait_for(1))
        async with serving(config, peer):
            await soon(peer.wait_for(2))
            await soon(peer.bring(said("yes", 2)))
            await soon(peer.wait_for(3))
            assert not is_made()
        assert peer.taken[1:] == ["Well.", "You said: yes"]
