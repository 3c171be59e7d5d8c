"""A conversation that goes on in a new process sends the provider the very same bytes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import get_args

import pytest

from clew.errors import TurnFailed
from clew.ports import Store
from clew.store import open_store
from tests.agent.peer import Call, Peer, Reply, Style, answer, peering, refusal
from tests.agent.talk import say
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def beginning(style: Style) -> list[Reply]:
    """Three turns with everything that is hard: four calls at once, thoughts, pictures, errors."""
    calls: list[Call] = [
        ("call_1", "look", {"x": "ünï", "n": 1.5}),
        ("call_2", "paint", {}),
        ("call_3", "fail", {"x": ""}),
        ("call_4", "nothing_like_it", {}),
    ]
    return [
        answer(style, "I look.\n\n", calls=calls, thinking="Hm, first.", signature="EqQB+/=="),
        refusal(529),
        answer(style, calls=[("call_5", "look", {"x": "again"})], thinking="And?", signature="s2"),
        answer(style, "Here: ✓", thinking="So.", signature="s3"),
        refusal(400),
        answer(style, "Fine."),
    ]


async def begin(store: Store, style: Style, peer: Peer) -> None:
    await say(store, style, peer.url, "Look at this\nplease", picture=True)
    with pytest.raises(TurnFailed, match="did not accept the request"):
        await say(store, style, peer.url, "this one fails")
    await say(store, style, peer.url, "and this?")


def ending(style: Style) -> list[Reply]:
    call = answer(style, calls=[("call_6", "look", {"x": "end"})], thinking="Hm.", signature="s4")
    return [call, answer(style, "The end.")]


@pytest.mark.parametrize("style", get_args(Style))
async def test_a_resumed_conversation_is_byte_for_byte_the_same(
    tmp_path: Path, style: Style
) -> None:
    first, second = (f"sqlite://{tmp_path}/{name}/sessions.db" for name in ("one", "two"))
    async with (
        peering(*beginning(style), *ending(style)) as stayed,
        await open_store(first, durability="normal") as store,
    ):
        await begin(store, style, stayed)
        await say(store, style, stayed.url, "go on")
    async with peering(*beginning(style), *ending(style)) as left:
        async with await open_store(second, durability="normal") as store:
            await begin(store, style, left)
        await run_alone(second, style, left.url, "go on")
    assert stayed.replies == left.replies == []
    assert len(stayed.bodies) == 8
    assert stayed.bodies == left.bodies
    last = stayed.bodies[-1].decode()
    for said in ("this one fails", "and this?", "seen \\u00fcn\\u00ef", "painted", "call_6"):
        assert said in last or said.encode().decode("unicode_escape") in last
    if style == "anthropic":
        assert all(signature in last for signature in ("EqQB+/==", "s2", "s3", "s4"))


async def run_alone(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.agent.talk",
        *arguments,
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, errors.decode()
