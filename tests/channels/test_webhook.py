"""Webhooks: signed requests in, and signed callbacks to a real server on a local port."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.channels.webhook import Hook, WebhookChannel, check_signature, read_hook, sign
from clew.core.channels.replies import Parcel
from clew.core.delivery import Outbound
from clew.errors import InvalidConfig, InvalidInput, ReplyDelayed, ReplyRefused, Unauthorized
from tests.patience import PATIENCE

SECRET = "a long enough secret"
HOOK = Hook(name="deploys", secret=SECRET, callback="http://127.0.0.1:1/")
NOW = 1_777_636_800_000


def ask(body: bytes, hook: Hook = HOOK, *, at: int = NOW, now: int = NOW) -> Any:
    return read_hook(hook, sign(hook.secret, body, at // 1000), body, now=now)


# --- in ---------------------------------------------------------------------------------------


def test_a_signed_body_is_a_message() -> None:
    got = ask(b'{"text": "It is out.", "id": "d-1", "sender": "ci"}')

    assert (got.text, got.external_id) == ("It is out.", "d-1")
    assert (got.arrival.channel, got.arrival.account) == ("webhook", "deploys")
    assert (got.sender.id, got.sender.name) == ("deploys", "ci")
    assert (got.arrival.is_owner, got.from_person) == (False, False)
    assert got.reply_to.place == ("webhook", "deploys", got.key)


def test_any_other_body_is_itself_the_text() -> None:
    assert ask(b'{"action": "opened"}').text == '{"action": "opened"}'
    assert ask("schön".encode()).text == "schön"


@given(st.binary(max_size=200), st.integers(0, 2**36))
def test_what_is_signed_is_accepted_and_nothing_else_is(body: bytes, at: int) -> None:
    headers = sign(SECRET, body, at)
    check_signature(SECRET, headers, body, now=at)
    for key, wrong in ((SECRET, body + b"x"), (SECRET + "x", body)):
        with pytest.raises(Unauthorized):
            check_signature(key, headers, wrong, now=at)


@pytest.mark.parametrize(
    "change",
    [
        lambda headers: headers.pop("x-clew-signature"),
        lambda headers: headers.pop("x-clew-timestamp"),
        lambda headers: headers.update({"x-clew-timestamp": "1777636801"}),
        lambda headers: headers.update({"x-clew-timestamp": "١٧٧٧٦٣٦٨٠٠"}),
        lambda headers: headers.update({"x-clew-signature": "v1=\udcff"}),
        lambda headers: headers.update({"x-clew-signature": headers["x-clew-signature"][3:]}),
        lambda headers: headers.update({"x-clew-signature": "v1=" + "0" * 64}),
    ],
)
def test_a_request_with_a_wrong_signature_is_refused(
    change: Callable[[dict[str, str]], object],
) -> None:
    headers = sign(SECRET, b"hi", NOW // 1000)
    change(headers)

    with pytest.raises(Unauthorized):
        read_hook(HOOK, headers, b"hi", now=NOW)


@pytest.mark.parametrize(
    ("apart", "fits"), [(300, True), (301, False), (-300, True), (-301, False)]
)
def test_a_signature_is_good_for_five_minutes(apart: int, fits: bool) -> None:
    with contextlib.nullcontext() if fits else pytest.raises(Unauthorized):
        ask(b"hi", now=NOW + apart * 1000)


def test_one_of_several_signatures_is_enough_while_a_secret_changes() -> None:
    headers = sign(SECRET, b"hi", NOW // 1000)
    headers["x-clew-signature"] = f"v1={'0' * 64}, {headers['x-clew-signature']}"

    assert read_hook(HOOK, headers, b"hi", now=NOW).text == "hi"


def test_a_replayed_request_is_the_same_message_in_the_same_session() -> None:
    first, again, later = ask(b"hi"), ask(b"hi", now=NOW + 5_000), ask(b"hi", at=NOW + 5_000)

    assert (first.external_id, first.key) == (again.external_id, again.key)
    assert first.external_id != later.external_id
    assert first.key != later.key


def test_a_header_that_is_not_signed_makes_no_new_message_of_an_old_one() -> None:
    headers = sign(SECRET, b"hi", NOW // 1000) | {"x-clew-delivery": "another"}

    assert read_hook(HOOK, headers, b"hi", now=NOW).external_id == ask(b"hi").external_id


def test_sessions_are_named_by_the_configuration_or_the_body() -> None:
    fixed = msgspec.structs.replace(HOOK, session="ops", agent="home")
    trusted = msgspec.structs.replace(HOOK, trusted=True)
    body = b'{"text": "hi", "key": "ISSUE-7"}'

    assert ask(b"hi", fixed).key == ask(body, fixed).key == "agent:home:hook:ops"
    assert ask(body, trusted).key == "agent:main:hook:issue-7"
    # A hook that is not trusted can't talk its way into the session of another.
    assert ask(body).key == "agent:main:hook:deploys:issue-7"


def test_no_hook_that_is_not_trusted_names_the_session_of_another() -> None:
    one = msgspec.structs.replace(HOOK, name="ci")
    other = msgspec.structs.replace(HOOK, name="ci-prod")
    fixed = msgspec.structs.replace(HOOK, name="ops", session="ci-prod")

    keys = [
        ask(b'{"text": "hi", "key": "prod-x"}', one).key,
        ask(b'{"text": "hi", "key": "x"}', other).key,
        ask(b'{"text": "hi", "key": "prod"}', one).key,
        ask(b"hi", fixed).key,
    ]
    assert len(set(keys)) == len(keys)


def test_its_answer_goes_where_the_configuration_says() -> None:
    elsewhere = msgspec.structs.replace(HOOK, deliver_to="telegram:123")
    silent = msgspec.structs.replace(HOOK, callback=None)

    assert ask(b"hi", elsewhere).reply_to.channel == "telegram"
    assert ask(b"hi", silent).reply_to is None


@pytest.mark.parametrize(
    "body",
    [b"", b"  \n", b"\xff\xfe", b'{"text": ""}', b'{"text": "x", "key": "../up"}',
     b'{"text": "x", "id": ""}', b"[" * 100_000 + b" " * 950_000],
)  # fmt: skip
def test_a_body_that_says_nothing_or_too_much_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        ask(body)


def test_deep_json_is_just_text() -> None:
    assert ask(b"[" * 10_000).text == "[" * 10_000


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"webhooks\.deploys\.secret"):
        Hook(name="deploys", secret="short").check()


# --- out --------------------------------------------------------------------------------------


class Server:
    """A callback's server: answers each request with the next of `answers`, None for a hang-up."""

    def __init__(self) -> None:
        self.answers: list[str | None] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        pairs = (line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((headers, body))
        answer = self.answers.pop(0) if self.answers else "204 No Content"
        if answer is not None:
            status, _, more = answer.partition("|")
            writer.write(f"HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\n\r\n".encode())
            await writer.drain()
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/clew"
    async with listening:
        yield made


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=PATIENCE) as opened:
        yield opened


def parcel(text: str = "Done.") -> Parcel:
    row = Outbound(
        "o1", "s1", "k", "webhook", {}, text, "t1", 4, "sending", 1, 0, "me", 0,
        None, None, 0, 0, "deploys",
    )  # fmt: skip
    return Parcel(outbound=row, text=text)


def open_channel(server: Server, client: httpx.AsyncClient, **fields: Any) -> WebhookChannel:
    hook = msgspec.structs.replace(HOOK, callback=server.url, **fields)
    return WebhookChannel(hook, clock=lambda: NOW, client=client)


async def test_a_reply_is_posted_signed_and_named(
    server: Server, client: httpx.AsyncClient
) -> None:
    receipt = await open_channel(server, client, callback_secret="another secret").send(parcel())

    ((headers, body),) = server.requests
    assert receipt == {"status": 204}
    check_signature("another secret", headers, body, now=NOW // 1000)
    assert headers["x-clew-delivery"] == "o1-1"
    assert json.loads(body) == {
        "id": "o1", "part": 1, "is_last": True, "text": "Done.", "session_id": "s1",
        "turn_id": "t1", "key": "k",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("404 Not Found", ReplyRefused),
        ("302 Found|Location: http://127.0.0.1:9/\r\n", ReplyRefused),
        ("429 Too Many Requests|Retry-After: 7\r\n", ReplyDelayed),
        ("503 Service Unavailable", ReplyDelayed),
        ("500 Internal Server Error", ConnectionError),
        (None, httpx.RemoteProtocolError),
    ],
)
async def test_what_the_other_side_says_is_what_becomes_of_the_reply(
    server: Server, client: httpx.AsyncClient, answer: str | None, error: type[Exception]
) -> None:
    server.answers = [answer]

    with pytest.raises(error) as caught:
        await open_channel(server, client).send(parcel())

    if isinstance(caught.value, ReplyDelayed):
        assert caught.value.after == (7 if answer and "Retry-After" in answer else None)


async def test_a_callback_where_nobody_is_has_certainly_not_got_it(
    client: httpx.AsyncClient,
) -> None:
    with pytest.raises(ReplyDelayed):
        await WebhookChannel(HOOK, clock=lambda: NOW, client=client).send(parcel())


async def test_text_that_no_json_can_carry_is_sent_all_the_same(
    server: Server, client: httpx.AsyncClient
) -> None:
    await open_channel(server, client).send(parcel("a\udcffb"))

    assert json.loads(server.requests[0][1])["text"] == "a?b"


def test_only_who_knows_repetitions_by_their_id_is_sent_them() -> None:
    again = WebhookChannel(msgspec.structs.replace(HOOK, resend=True), clock=lambda: NOW)

    assert again.may_repeat(parcel().outbound)
    assert not WebhookChannel(HOOK, clock=lambda: NOW).may_repeat(parcel().outbound)
