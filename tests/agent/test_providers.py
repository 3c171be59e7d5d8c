"""The real clients of the providers, streamed end to end against a server on this machine."""

from __future__ import annotations

import asyncio
import time
from typing import Any, get_args

import pytest

from clew.core.live_events import Retrying, TextDelta, ThinkingDelta
from clew.errors import ContextTooLong, ModelRefused, ModelUnavailable, TurnFailed
from clew.ports import Store
from tests.agent.conftest import Naps, outline
from tests.agent.peer import Style, answer, failure, peering, refusal
from tests.agent.talk import say
from tests.patience import PATIENCE
from tests.promptness import is_at_once

STYLES = get_args(Style)
pytestmark = pytest.mark.parametrize("style", STYLES)

TOO_LONG = {
    "openai": failure(
        400, {"error": {"message": "too long", "code": "context_length_exceeded", "type": "x"}}
    ),
    "anthropic": failure(
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        },
    ),
}


async def test_text_streams_in_and_usage_is_counted(store: Store, style: Style) -> None:
    async with peering(answer(style, "Hello there.", thinking="Hm, hm.", signature="s")) as peer:
        turn = await say(store, style, peer.url, "hello")
    assert [s.text for s in turn.signals if isinstance(s, TextDelta)] == ["Hello ", "there."]
    assert "".join(s.text for s in turn.signals if isinstance(s, ThinkingDelta)) == "Hm, hm."
    assert outline(await turn.thread()) == ["user: hello", "assistant: Hello there."]
    usage = (await store.get_turn(turn.id)).usage
    # Everything that was read, whatever the provider counts into which of its numbers.
    assert usage.input_tokens == {"openai": 40, "anthropic": 45}[style]
    assert (usage.output_tokens, usage.cache_read_tokens) == (10, 30)
    assert usage.cost is None


async def test_parallel_tool_calls_and_their_results_go_back(store: Store, style: Style) -> None:
    calls = [
        ("c1", "look", {"x": "one"}),
        ("c2", "paint", {}),
        ("c3", "fail", {}),
        ("c4", "look", {"x": "four"}),
    ]
    first = answer(style, "Let me see.", calls=calls, thinking="Hm.", signature="sig")
    async with peering(first, answer(style, "Done.")) as peer:
        turn = await say(store, style, peer.url, "look twice", picture=True)
    assert (await turn.thread())[-1].content == "Done."
    sent = peer.requests[1]["messages"]
    if style == "anthropic":
        assert sent[1]["content"][0] == {"thinking": "Hm.", "signature": "sig", "type": "thinking"}
        results = sent[2]["content"]
        assert [block["tool_use_id"] for block in results] == ["c1", "c2", "c3", "c4"]
        assert [block["is_error"] for block in results] == [False, False, True, False]
        assert results[1]["content"][1]["type"] == "image"
        assert sent[0]["content"][1]["type"] == "image"
    else:
        sent = [message for message in sent if message["role"] != "system"]
        assert [c["id"] for c in sent[1]["tool_calls"]] == ["c1", "c2", "c3", "c4"]
        results = [message for message in sent if message["role"] == "tool"]
        assert [message["tool_call_id"] for message in results] == ["c1", "c2", "c3", "c4"]
        assert "No such file." in results[2]["content"]
        assert sent[0]["content"][1]["type"] == "image_url"
    assert "You are a test." in str(peer.requests[0])


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, ModelRefused, "did not accept the key .*The server says so.*_API_KEY"),
        (403, ModelRefused, "does not let this key use"),
        (404, ModelRefused, "does not know the model .*clew model list"),
        (400, TurnFailed, "did not accept the request"),
    ],
)
async def test_a_refusal_is_told_once_in_words(
    store: Store, style: Style, status: int, kind: type[TurnFailed], words: str
) -> None:
    async with peering(refusal(status)) as peer:
        with pytest.raises(kind, match=words):
            await say(store, style, peer.url, "hello")
    assert len(peer.bodies) == 1
    assert len(await store.get_messages((await _only(store)).id)) == 1


async def test_a_conversation_that_is_too_long_is_told_so(store: Store, style: Style) -> None:
    async with peering(TOO_LONG[style]) as peer:
        with pytest.raises(ContextTooLong, match="/new"):
            await say(store, style, peer.url, "hello")


async def test_busy_servers_are_asked_again_after_what_they_said(
    store: Store, style: Style
) -> None:
    naps = Naps()
    replies = [
        refusal(429, retry_after="7"),
        refusal(529),
        refusal(500),
        answer(style, "Here I am."),
    ]
    async with peering(*replies) as peer:
        turn = await say(store, style, peer.url, "hello", naps=naps)
    # The client retries nothing by itself, so each wait of ours is one request.
    assert len(peer.bodies) == 4
    assert len(set(peer.bodies)) == 1
    assert sum(naps.taken) == 7 + 2 + 4
    assert max(s.attempt for s in turn.signals if isinstance(s, Retrying)) == 4
    assert outline(await turn.thread()) == ["user: hello", "assistant: Here I am."]


async def test_half_an_answer_is_thrown_away_and_asked_for_again(
    store: Store, style: Style
) -> None:
    dropped = answer(style, "A rather long answer.", ending="dropped")
    failed = answer(style, "And a third one.", ending="failed")
    early = answer(style, "Another one.", ending="early")
    async with peering(dropped, failed, early, answer(style, "Whole.")) as peer:
        turn = await say(store, style, peer.url, "hello")
    assert peer.replies == []
    assert outline(await turn.thread()) == ["user: hello", "assistant: Whole."]


async def test_stopping_a_stream_that_hangs_is_immediate(store: Store, style: Style) -> None:
    async def attempt() -> float:
        async with peering(answer(style, "A rather long answer.", ending="stalled")) as peer:
            task = asyncio.create_task(say(store, style, peer.url, "hello"))
            async with asyncio.timeout(PATIENCE):
                while not peer.bodies:  # noqa: ASYNC110  # the peer has no event for it
                    await asyncio.sleep(0.01)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, PATIENCE)
            return time.monotonic() - began

    await is_at_once(attempt)
    messages = await store.get_messages((await _only(store)).id)
    assert {each.role for each in messages} == {"user"}


async def test_a_server_that_is_not_there_is_told_after_four_attempts(
    store: Store, style: Style
) -> None:
    async with peering() as peer:
        address = peer.url
    naps = Naps()
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        await say(store, style, address, "hello", naps=naps)
    assert sum(naps.taken) == 1 + 2 + 4


async def test_an_answer_at_its_limit_is_kept(store: Store, style: Style) -> None:
    finish = {"openai": "length", "anthropic": "max_tokens"}[style]
    async with peering(answer(style, "Once upon a", finish=finish)) as peer:
        turn = await say(store, style, peer.url, "a story")
    assert (await turn.thread())[-1].content == "Once upon a"
    assert any("cut" in getattr(s, "text", "") for s in turn.signals)


async def test_another_providers_thoughts_are_not_sent(store: Store, style: Style) -> None:
    other: Style = "anthropic" if style == "openai" else "openai"
    async with peering(answer(other, "I think.", thinking="secret", signature="sig")) as peer:
        await say(store, other, peer.url, "hello")
    async with peering(answer(style, "Me too.")) as peer:
        await say(store, style, peer.url, "and you?")
    assert b"I think." in peer.bodies[0]
    assert b"secret" not in peer.bodies[0]


async def _only(store: Store) -> Any:
    (session,) = await store.find_keys("cli:test")
    return session
