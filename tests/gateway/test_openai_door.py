"""OpenAI's own package talks to the gateway, over a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from clew import config as configuration
from clew.api.handlers.tokens import make_token
from clew.clock import host_clock
from clew.core.changes import AddMessage
from clew.core.channels.speech import tell
from clew.core.live_events import Retrying, TextDelta
from clew.core.message import Draft, ToolCall
from clew.core.session import OWNER, Session, SessionFilter
from clew.core.tokens import digest_of
from clew.core.turn import UNASKED
from clew.errors import ModelUnavailable
from clew.gateway.auth import Setup
from clew.gateway.openai_door import AGAIN
from clew.gateway.server import Address, listen, serving
from clew.ports import LiveTurn
from clew.wiring import open_gateway
from tests.gateway.conftest import check_problem
from tests.gateway.streaming import Place, open_place
from tests.runtime.conftest import Held, Scene, added, failing, outline, saying, soon

HELLO: list[Any] = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(tmp_path, heartbeat=0.1) as made:
        yield made


def client_of(place: Place, secret: str, **more: Any) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{place.url}/v1/openai", api_key=secret, **more)


@pytest.fixture
async def ai(place: Place) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(place, await place.house.secret("chat")) as client:
        yield client


async def sessions_of(place: Place, viewer: str = OWNER) -> list[Session]:
    page = await place.store.list_sessions(SessionFilter(viewer=viewer), limit=100)
    return list(page.sessions)


def in_pieces(*pieces: str) -> Scene:
    async def scene(turn: LiveTurn) -> None:
        for each in pieces:
            turn.signal(TextDelta(each))
            await asyncio.sleep(0)
        await turn.finish(added(turn, "".join(pieces)))

    return scene


def refused_a_tool(name: str) -> Scene:
    """Say something, ask for an approval that nobody can give, and go on without."""

    async def scene(turn: LiveTurn) -> None:
        call = ToolCall(id="call_1", name=name)
        asked = Draft(role="assistant", content="let me see", tool_calls=(call,))
        await turn.record(AddMessage(asked, turn.id, from_person=False))
        approval = await turn.ask(call, {"summary": name})
        assert (approval.decision, approval.decided_by) == ("no", "nobody")
        result = Draft(role="tool", content=UNASKED, tool_call_id="call_1", tool_name=name)
        await turn.record(AddMessage(result, turn.id, from_person=False))
        await turn.finish(added(turn, "I can't"))

    return scene


async def test_a_completion_is_a_turn_in_a_session_of_the_token(
    place: Place, ai: AsyncOpenAI
) -> None:
    place.actor.scenes = [saying("hi"), saying("still here")]
    first = await ai.chat.completions.create(model="clew", messages=HELLO, user="ann")
    assert first.choices[0].message.content == "hi"
    assert first.choices[0].finish_reason == "stop"
    assert first.usage is not None
    earlier: list[Any] = [
        *HELLO,
        {"role": "assistant", "content": "I said something else"},
        {"role": "user", "content": "are you there?"},
    ]
    second = await ai.chat.completions.create(model="clew", messages=earlier, user="ann")
    assert second.choices[0].message.content == "still here"
    (session,) = await sessions_of(place)
    assert (session.platform, session.key.split(":")[0]) == ("openai", "openai")
    assert session.key.endswith(":ann")
    thread = await place.store.get_messages(session.id)
    assert outline(thread) == [
        "user: hello", "assistant: hi", "user: are you there?", "assistant: still here",
    ]  # fmt: skip
    assert thread[2].parts == ()
    assert second.model_extra is not None
    assert second.model_extra["clew"]["session"] == session.id


async def test_a_stream_says_the_same_piece_by_piece(place: Place, ai: AsyncOpenAI) -> None:
    place.actor.scenes = [in_pieces("one ", "two ", "three")]
    stream = await ai.chat.completions.create(
        model="clew", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [each async for each in stream]
    pieces = [each.choices[0].delta.content or "" for each in chunks if each.choices]
    assert "".join(pieces) == "one two three"
    assert len([each for each in pieces if each]) >= 2
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    assert chunks[-1].usage is not None


async def test_responses_work_whole_and_as_a_stream(place: Place, ai: AsyncOpenAI) -> None:
    place.actor.scenes = [saying("hi"), in_pieces("a", "b")]
    whole = await ai.responses.create(model="clew", input="hello", conversation="talk")
    assert whole.output_text == "hi"
    assert whole.status == "completed"
    async with ai.responses.stream(
        model="clew", input="more", conversation={"id": "talk"}
    ) as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert final.output_text == "ab"
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    (session,) = await sessions_of(place)
    assert session.message_count == 4


async def test_what_was_said_before_is_a_quote_and_the_system_holds_for_the_turn(
    place: Place, ai: AsyncOpenAI
) -> None:
    talk: list[Any] = [
        {"role": "system", "content": "Answer in rhymes."},
        {"role": "user", "content": "my name is Ann"},
        {"role": "assistant", "content": "nice\nto meet you"},
        {"role": "user", "content": [{"type": "text", "text": "who am I?"}]},
        {"role": "developer", "content": "Be brief."},
    ]
    await ai.chat.completions.create(model="clew", messages=talk)
    (session,) = await sessions_of(place)
    said, answer = await place.store.get_messages(session.id)
    assert said.content == "who am I?"
    assert answer.content == "ok"
    text = tell(said)
    assert "> user: my name is Ann\n> assistant: nice\n> to meet you" in text
    assert text.endswith("who am I?")
    assert "rhymes" not in text
    assert said.parts[0] == {"type": "instructions", "text": "Answer in rhymes.\n\nBe brief."}


async def test_every_request_without_a_name_begins_a_session(place: Place, ai: AsyncOpenAI) -> None:
    for _ in range(2):
        await ai.chat.completions.create(model="clew", messages=HELLO)
    assert len(await sessions_of(place)) == 2


async def test_pictures_come_along_and_addresses_are_refused(place: Place, ai: AsyncOpenAI) -> None:
    def asking(url: str) -> list[Any]:
        picture = {"type": "image_url", "image_url": {"url": url}}
        return [{"role": "user", "content": [{"type": "text", "text": "see"}, picture]}]

    await ai.chat.completions.create(
        model="clew", messages=asking("data:image/png;base64,iVBORw0KGgo=")
    )
    (session,) = await sessions_of(place)
    said = (await place.store.get_messages(session.id))[0]
    assert [part.get("media_type") for part in said.parts] == ["image/png"]
    for wrong in ("https://example.org/a.png", "data:image/png;base64,%%%", "data:nonsense"):
        with pytest.raises(openai.BadRequestError):
            await ai.chat.completions.create(model="clew", messages=asking(wrong))
    assert len(await sessions_of(place)) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"functions": [{"name": "f"}]},
        {"n": 2},
        {"logprobs": True},
        {"response_format": {"type": "json_object"}},
        {"messages": [*HELLO, {"role": "assistant", "content": "and so"}]},
        {"messages": []},
        {"messages": [{"role": "user", "content": "  "}]},
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": ["hello"]},
        {"messages": [{"role": "wizard", "content": "x"}, *HELLO]},
        {"user": "a\nb"},
        {"user": "x" * 201},
        {"conversation": ""},
        {"stream": "yes"},
        {"model": 5},
    ],
)
async def test_what_clew_does_not_do_is_refused_and_nothing_is_kept(
    place: Place, more: dict[str, Any]
) -> None:
    token = await place.house.secret("chat")
    body = {"model": "clew", "messages": HELLO} | more
    response = await place.house.ask("POST", "/v1/openai/chat/completions", token=token, json=body)
    error = check_problem(response, 400)["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert await sessions_of(place) == []


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "web_search"}]},
        {"previous_response_id": "resp_1"},
        {"background": True},
        {"text": {"format": {"type": "json_schema"}}},
        {"conversation": {"id": 5}},
        {"input": [{"type": "item_reference", "id": "x"}, *HELLO]},
        {"input": []},
    ],
)
async def test_so_it_is_for_responses(place: Place, more: dict[str, Any]) -> None:
    token = await place.house.secret("chat")
    body = {"model": "clew", "input": "hello"} | more
    response = await place.house.ask("POST", "/v1/openai/responses", token=token, json=body)
    check_problem(response, 400)
    assert await sessions_of(place) == []


async def test_earlier_messages_of_any_shape_are_read_or_refused_and_break_nothing(
    place: Place,
) -> None:
    token = await place.house.secret("chat")
    for odd in (
        {"role": "assistant", "tool_calls": 5},
        {"role": "assistant", "tool_calls": [5, {"function": 5}, {"function": {"name": []}}]},
        {"role": ["user"], "content": "x"},
        {"role": "user", "content": [5]},
        {"role": "user", "content": [{"type": "image_url", "image_url": [1]}]},
        {"role": "system", "content": {"a": 1}},
        {"type": "function_call_output", "output": 5},
        {},
    ):
        for path, field in (("chat/completions", "messages"), ("responses", "input")):
            response = await place.house.ask(
                "POST", f"/v1/openai/{path}", token=token, json={field: [odd, *HELLO]}
            )
            assert response.status_code in (200, 400), (odd, response.text)


async def test_settings_that_have_no_effect_are_accepted(place: Place, ai: AsyncOpenAI) -> None:
    told = await ai.chat.completions.create(
        model="clew", messages=HELLO, temperature=0.1, max_tokens=5, seed=1, n=1,
        extra_body={"whatever": {"a": 1}, "tools": []},
    )  # fmt: skip
    assert told.choices[0].message.content == "ok"


async def test_one_idempotency_key_is_one_turn_however_often_it_comes(
    place: Place, ai: AsyncOpenAI
) -> None:
    held = Held("once")
    place.actor.scenes = [held]
    headers = {"Idempotency-Key": "k1"}

    async def ask() -> str | None:
        told = await ai.chat.completions.create(model="clew", messages=HELLO, extra_headers=headers)
        return told.choices[0].message.content

    both = asyncio.gather(ask(), ask())
    await soon(held.began.wait())
    held.go_on.set()
    assert list(await soon(both)) == ["once", "once"]
    assert await soon(ask()) == "once"
    assert len(place.actor.turns) == 1
    # Another token may use the same key for something else.
    async with client_of(place, await place.house.secret("chat")) as other:
        told = await other.chat.completions.create(
            model="clew", messages=HELLO, extra_headers=headers
        )
    assert told.choices[0].message.content == "ok"
    assert len(place.actor.turns) == 2


async def test_a_name_leads_only_to_sessions_of_its_own_token(place: Place) -> None:
    secrets = [
        await place.house.secret("chat"),
        await place.house.secret("chat"),
        await place.house.secret("chat", "telegram:5"),
        await place.house.secret("chat", "telegram:6"),
    ]
    foreign = await place.house.session("cli:secret")
    for secret in secrets:
        async with client_of(place, secret) as client:
            for name in ("home", foreign.id, foreign.key, "../x", "openai:x:home"):
                await client.chat.completions.create(
                    model="clew", messages=HELLO, extra_headers={"X-Clew-Conversation": name}
                )
    keys = [each.key for each in await sessions_of(place)]
    assert len(keys) == len(set(keys)) == 1 + 4 * 5
    assert (await place.store.get_session(foreign.id)).message_count == 0
    of_guest = await sessions_of(place, "telegram:5")
    assert {each.person for each in of_guest} == {"telegram:5"}
    assert len(of_guest) == 5


async def test_a_guest_names_no_model_and_the_owner_any_that_is_configured(place: Place) -> None:
    async with client_of(place, await place.house.secret("chat")) as owner:
        names = [each.id async for each in owner.models.list()]
        assert names[0] == "clew"
        assert "script/two" in names
        await owner.chat.completions.create(model="script/two", messages=HELLO)
        with pytest.raises(openai.NotFoundError) as caught:
            await owner.chat.completions.create(model="gpt-9", messages=HELLO)
        assert caught.value.code == "model_not_found"
    (session,) = await sessions_of(place)
    assert session.model == "script/two"
    async with client_of(place, await place.house.secret("chat", "telegram:5")) as guest:
        assert [each.id async for each in guest.models.list()] == ["clew"]
        with pytest.raises(openai.NotFoundError):
            await guest.chat.completions.create(model="script/two", messages=HELLO)


async def test_what_needs_an_approval_is_refused_and_said(place: Place, ai: AsyncOpenAI) -> None:
    headers = {"Idempotency-Key": "k"}
    place.actor.scenes = [refused_a_tool("shell")]
    texts = []
    for _ in range(2):  # the second reads what is stored
        told = await ai.chat.completions.create(model="clew", messages=HELLO, extra_headers=headers)
        texts.append(told.choices[0].message.content)
    assert texts[0] == texts[1]
    assert texts[0] is not None
    assert texts[0].startswith("let me see\n\nI can't\n\n[Refused")
    assert "shell" in texts[0]
    place.actor.scenes = [refused_a_tool("shell")]
    stream = await ai.chat.completions.create(model="clew", messages=HELLO, stream=True)
    pieces = [each.choices[0].delta.content or "" async for each in stream]
    assert "".join(pieces) == texts[0]


async def test_a_failed_turn_is_an_error_and_is_not_sent_again(
    place: Place, ai: AsyncOpenAI
) -> None:
    failed = ModelUnavailable("The model is away.")
    place.actor.scenes = [failing(failed, "so "), failing(failed, "so "), failing(failed)]
    with pytest.raises(openai.APIStatusError, match="away") as caught:
        await ai.chat.completions.create(model="clew", messages=HELLO)
    assert caught.value.status_code == 502
    with pytest.raises(openai.APIError, match="away"):
        async for _ in await ai.chat.completions.create(model="clew", messages=HELLO, stream=True):
            pass
    async with ai.responses.stream(model="clew", input="hello") as stream:
        kinds = [event.type async for event in stream]
    assert kinds[-1] == "response.failed"
    assert len(place.actor.turns) == 3


async def test_a_repeated_attempt_goes_on_where_it_can_and_else_says_so(
    place: Place, ai: AsyncOpenAI
) -> None:
    def trying_twice(first: str, *second: str) -> Scene:
        async def scene(turn: LiveTurn) -> None:
            turn.signal(TextDelta(first))
            turn.signal(Retrying(1, 3, 0.0, "it broke"))
            await in_pieces(*second)(turn)

        return scene

    async def read() -> str:
        stream = await ai.chat.completions.create(model="clew", messages=HELLO, stream=True)
        return "".join([each.choices[0].delta.content or "" async for each in stream])

    place.actor.scenes = [
        trying_twice("The an", "The ", "answer"),
        trying_twice("The an", "No", "thing"),
    ]
    assert await read() == "The answer"
    assert await read() == f"The an\n\n{AGAIN}\n\nNothing"


async def test_a_caller_that_leaves_finds_its_answer_later(place: Place, ai: AsyncOpenAI) -> None:
    for is_streamed in (True, False):
        held = Held("the answer")
        place.actor.scenes = [held]
        headers = {"Idempotency-Key": f"k {is_streamed}"}
        asking: Any = ai.chat.completions.create(
            model="clew", messages=HELLO, stream=is_streamed, extra_headers=headers
        )
        if is_streamed:
            stream = await asking
            await soon(held.began.wait())
            await stream.close()
        else:
            task = asyncio.ensure_future(asking)
            await soon(held.began.wait())
            task.cancel()
            await asyncio.wait({task})
        held.go_on.set()
        told = await ai.chat.completions.create(model="clew", messages=HELLO, extra_headers=headers)
        assert told.choices[0].message.content == "the answer"
        assert not held.stopped


async def test_a_revoked_token_ends_its_stream_and_its_wait(place: Place) -> None:
    secret = await place.house.secret("chat")
    held = Held("never heard")
    place.actor.scenes = [held, Held()]
    async with client_of(place, secret, max_retries=0) as client:
        stream = await client.chat.completions.create(model="clew", messages=HELLO, stream=True)
        waiting = asyncio.ensure_future(
            client.chat.completions.create(model="clew", messages=HELLO)
        )
        await soon(held.began.wait())
        await place.house.revoke(secret)
        with pytest.raises(openai.APIError, match="revoked"):
            async for _ in stream:
                pass
        with pytest.raises(openai.AuthenticationError):
            await soon(waiting)


async def test_errors_of_the_gateway_itself_are_in_openais_shape_too(place: Place) -> None:
    async with client_of(place, "clew_wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.models.list()
        assert caught.value.code == "unauthorized"
        assert caught.value.type == "authentication_error"
    reader = await place.house.secret("read")
    async with client_of(place, reader, max_retries=0) as client:
        with pytest.raises(openai.PermissionDeniedError):
            await client.chat.completions.create(model="clew", messages=HELLO)
    async with httpx.AsyncClient(base_url=place.url) as plain:
        for method, path, status in (
            ("GET", "/v1/openai/chat/completions", 405),
            ("GET", "/v1/openai/nothing", 404),
        ):
            response = await plain.request(
                method, path, headers={"Authorization": f"Bearer {reader}"}
            )
            assert response.status_code == status
            assert response.json()["error"]["message"]


async def test_half_a_body_and_a_huge_one_change_nothing(place: Place) -> None:
    token = await place.house.secret("chat")
    path = "/v1/openai/chat/completions"
    for content, status in (
        (b'{"messages": [{"role": "us', 400),
        (b"[" * 100_000, 400),
        (b'{"messages": "' + b"x" * 33_000_000 + b'"}', 413),
    ):
        response = await place.house.ask(
            "POST", path, token=token, content=content,
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        assert check_problem(response, status)["error"]["message"]
    many = [{"role": "user", "content": "x"}] * 1_002
    response = await place.house.ask("POST", path, token=token, json={"messages": many})
    check_problem(response, 400)
    assert await sessions_of(place) == []


async def test_the_agent_itself_reads_the_system_and_is_refused_what_it_may_not_do_alone(
    tmp_path: Path,
) -> None:
    script = {
        "rules": [
            {"when": "rhyme", "answers": [{"text": "", "echo": "instructions"}]},
            {
                "when": "delete",
                "answers": [
                    {"tool_calls": [{"name": "shell", "arguments": {"command": "touch x"}}]},
                    "It was not done.",
                ],
            },
        ],
        "answers": [{"text": "", "echo": "user"}],
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    (tmp_path / "config.toml").write_text(f"""
model = "script/one"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
models = ["one"]
base_url = "{tmp_path}/script.json"
""")
    config = configuration.load(home=str(tmp_path), environ={})
    address = Address(port=0)
    async with open_gateway(config, Setup()) as gateway:
        token, secret = make_token("test", ("write",), host_clock())
        await gateway.house.store.add_token(token, digest_of(secret))
        with listen(address) as listener:
            async with (
                serving(gateway.app, gateway.gate, address, listener, grace=2) as url,
                AsyncOpenAI(base_url=f"{url}/v1/openai", api_key=secret) as ai,
            ):
                texts = []
                for said, system in (
                    ("a rhyme", "Speak in hexameters."),
                    ("a rhyme again", ""),
                    ("delete it", ""),
                    ("what?", ""),
                ):
                    told = await ai.chat.completions.create(
                        model="clew",
                        messages=[
                            {"role": "system", "content": system},
                            {"role": "user", "content": "I am Ann."},
                            {"role": "user", "content": said},
                        ],
                        extra_body={} if said == "what?" else {"user": "ann"},
                    )
                    texts.append(told.choices[0].message.content or "")
        assert "Speak in hexameters." in texts[0]
        assert texts[0].index("# Environment") < texts[0].index("hexameters")
        assert "hexameters" not in texts[1]
        assert "It was not done." in texts[2]
        assert "shell" in texts[2].splitlines()[-1]
        assert "> user: I am Ann." in texts[3]
