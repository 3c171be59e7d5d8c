"""Whatever is sent: a problem document with a 4xx, and nothing changed."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Message

from clew.gateway.endpoints import MAX_BODY, MAX_UPLOAD
from tests.gateway.conftest import House, check_problem

JSON = {"Content-Type": "application/json"}
GONE = "0192f0c1-2a3b-4c5d-8e9f-001122334455"
DEEP = b'{"text": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
DEEP_OBJECT = b'{"a":' * 10_000 + b"1" + b"}" * 10_000


BODIES = [
    (b"{", 400, "malformed_json"),
    (b"nope", 400, "malformed_json"),
    (b"[]", 400, "malformed_json"),
    (b'"text"', 400, "malformed_json"),
    (b"null", 400, "malformed_json"),
    (b"\xff\xfe{\x00}\x00", 400, "malformed_json"),
    (b'{"text": "\xff"}', 400, "malformed_json"),
    (b'{"text": "\\ud800"}', 400, "malformed_json"),
    (b'{"text": "a"} {}', 400, "malformed_json"),
    (b'{"text": NaN}', 400, "malformed_json"),
    (b'{"text": 1e999}', 400, "malformed_json"),
    (b'{"text": ' + b"9" * 5_000 + b"}", 400, "malformed_json"),
    (DEEP, 400, "malformed_json"),
    (DEEP_OBJECT, 400, "malformed_json"),
    (b"{}", 400, "invalid_input"),
    (b'{"text": 5}', 400, "invalid_input"),
    (b'{"text": null}', 400, "invalid_input"),
    (b'{"text": "a", "text2": "b"}', 400, "invalid_input"),
    (b'{"text": "a", "role": "assistant"}', 400, "invalid_input"),
    (b'{"text": "a", "session": "../../etc/passwd"}', 400, "invalid_input"),
    (b'{"text": "a", "session": "\\u0000"}', 400, "invalid_input"),
    (b'{"text": "a", "stream": "yes"}', 400, "invalid_input"),
    (b'{"text": "a", "attachments": [{"media_type": "x", "data": "!"}]}', 400, "invalid_input"),
    (b'{"text": "a", "attachments": {}}', 400, "invalid_input"),
    (b'{"text": "", "attachments": []}', 400, "invalid_input"),
    (b'{"text": "a", "key": "' + b"k" * 10_000 + b'"}', 400, "invalid_input"),
]


async def test_a_body_that_is_no_message_is_refused(
    house: House, admin: str, subtests: pytest.Subtests
) -> None:
    for body, status, code in BODIES:
        with subtests.test(str(body[:60])):
            response = await house.ask("POST", "/v1/chat", token=admin, content=body, headers=JSON)
            check_problem(response, status, code)
    assert (await house.store.stats()).sessions == 0


NOWHERE = [
    "/v1/sessions/..%2f..%2fetc%2fpasswd",
    "/v1/sessions/../../etc/passwd",
    f"/v1/sessions/{GONE}",
    "/v1/memory/..%2f..%2fconfig.toml",
    "/v1/resolve?value=..%2f..%2fetc%2fpasswd",
    "/v1/nothing",
    "/v1",
    "/v1/",
    "/v1/sessions/",
    "/..%2fapp.py",
    "/dashboard/index.html",
    "/main.js",
    "/s/",
    "/s/a/b",
]
WRONG = [
    "/v1/sessions/%2e%2e",
    "/v1/sessions/%00",
    "/v1/sessions/%ff%fe",
    "/v1/sessions/" + "a" * 5_000,
    "/v1/sessions/{id}%0a",
    f"/v1/sessions/{GONE.upper()}",
    "/v1/sessions/{id}?messages=-1",
    "/v1/sessions/{id}?messages=1001",
    "/v1/sessions/{id}?messages=99999999999999999999999999",
    "/v1/sessions/{id}?messages=1.5",
    "/v1/sessions/{id}?messages=",
    "/v1/sessions/{id}?messages=5&messages=6",
    "/v1/sessions/{id}?id={id}",
    "/v1/sessions/{id}?nonsense=1",
    "/v1/sessions/{id}/messages?before=9007199254740992",
    "/v1/sessions/{id}/messages?after=-1",
    "/v1/sessions/{id}/export?format=exe",
    "/v1/sessions?nonsense=1",
    "/v1/sessions?limit=-1",
    "/v1/sessions?limit=many",
    "/v1/sessions?archived=perhaps",
    "/v1/sessions?q=%ff",
    "/v1/sessions?q",
    "/v1/sessions?cursor=nope",
    "/v1/sessions?cursor=%00",
    "/v1/sessions?q=" + "a" * 20_000,
    "/v1/sessions?" + "&".join(f"a{n}=1" for n in range(200)),
    "/v1/memory/passwd",
    "/v1/usage?by=nonsense",
    "/v1/usage?since=-5",
    "/v1/resolve",
    "/v1/status?x=1",
    "/health?x=1",
]


async def test_an_address_that_leads_nowhere_is_not_found(
    house: House, admin: str, subtests: pytest.Subtests
) -> None:
    for path in NOWHERE:
        with subtests.test(path[:100]):
            check_problem(await house.ask("GET", path, token=admin), 404)


async def test_an_address_that_can_t_be_read_is_refused(
    house: House, admin: str, subtests: pytest.Subtests
) -> None:
    session = await house.session()
    for path in WRONG:
        with subtests.test(path[:100]):
            asked = path.replace("{id}", session.id)
            check_problem(await house.ask("GET", asked, token=admin), 400)


@pytest.mark.parametrize("query", ["personality=..%2f..%2fetc", "personality=%00"])
async def test_no_personality_leads_out_of_the_memory(house: House, admin: str, query: str) -> None:
    response = await house.ask("GET", f"/v1/memory/memory?{query}", token=admin)
    assert response.status_code in (400, 404), response.text


async def test_a_body_and_a_query_do_not_go_together(house: House, admin: str) -> None:
    response = await house.ask("POST", "/v1/chat?text=Hello", token=admin, json={"text": "Hello"})
    check_problem(response, 400, "invalid_input")
    by_name = await house.ask("POST", "/v1/rpc?x=1", token=admin, json={"method": "status"})
    check_problem(by_name, 400, "invalid_input")


@pytest.mark.parametrize("path", ["/v1/sessions?q=%00", "/v1/sessions?q=%22%5c%27;--", "/v1/queue"])
async def test_what_is_only_strange_is_answered(house: House, admin: str, path: str) -> None:
    assert (await house.ask("GET", path, token=admin)).status_code == 200


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "OPTIONS", "PUT", "BREW", "PROPFIND"])
async def test_a_method_that_an_address_does_not_know_is_refused(
    house: House, admin: str, method: str
) -> None:
    response = await house.ask(method, f"/v1/sessions/{GONE}", token=admin)
    check_problem(response, 405, "method_not_allowed")
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "PATCH", "DELETE"}


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "x"],
)
async def test_a_body_that_is_not_called_json_is_refused(
    house: House, admin: str, kind: str
) -> None:
    response = await house.ask(
        "POST", "/v1/chat", token=admin, content=b'{"text": "a"}', headers={"Content-Type": kind}
    )
    check_problem(response, 415, "unsupported_media_type")


async def flood(house: House, token: str | None, told: bool) -> tuple[int, int, int]:
    """Send 100 MB: the status, how much was heard before the answer, and how much in all."""
    megabyte, heard, status, before = b" " * 1_000_000, 0, 0, 0

    async def receive() -> Message:
        nonlocal heard
        heard += 1
        return {"type": "http.request", "body": megabyte, "more_body": heard < 100}

    async def send(message: Message) -> None:
        nonlocal status, before
        if message["type"] == "http.response.start":
            status, before = message["status"], heard

    length = (b"content-length", b"100000000") if told else (b"transfer-encoding", b"chunked")
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), length]
    if token is not None:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/chat",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
    }
    await house.app(scope, receive, send)
    return status, before, heard


async def test_a_body_of_100_mb_is_refused_before_it_is_read(house: House, admin: str) -> None:
    assert await flood(house, admin, told=True) == (413, 0, 100)
    status, before, heard = await flood(house, admin, told=False)
    assert (status, heard) == (413, 100)
    assert before <= MAX_UPLOAD / 1_000_000 + 1


async def test_a_body_is_not_read_for_somebody_who_may_not(house: House) -> None:
    assert (await flood(house, None, told=True))[:2] == (401, 0)
    assert (await flood(house, await house.secret("read"), told=False))[:2] == (403, 0)


async def test_only_messages_may_be_long(house: House, admin: str) -> None:
    body = b'{"content": "' + b"a" * MAX_BODY + b'"}'
    response = await house.ask("PUT", "/v1/memory/user", token=admin, content=body, headers=JSON)
    check_problem(response, 413, "body_too_large")


async def test_an_if_match_that_is_no_version_is_refused(
    house: House, admin: str, subtests: pytest.Subtests
) -> None:
    session = await house.session()
    for tag in ("5", '"', '""', 'W/"5"', '"1", "2"', '"five"', '"-1"', '"9' + "9" * 30 + '"'):
        with subtests.test(tag):
            response = await house.ask(
                "PATCH",
                f"/v1/sessions/{session.id}",
                token=admin,
                json={"title": "new"},
                headers={"If-Match": tag},
            )
            check_problem(response, 400, "invalid_input")
    assert (await house.store.get_session(session.id)).title is None


async def test_an_if_match_where_nothing_heeds_it_is_refused(house: House, admin: str) -> None:
    session = await house.session()
    response = await house.ask(
        "DELETE", f"/v1/sessions/{session.id}", token=admin, headers={"If-Match": '"1"'}
    )
    check_problem(response, 400, "invalid_input")
    assert (await house.store.get_session(session.id)).deleted_at is None


RPC: list[Any] = [
    {},
    {"method": "nothing"},
    {"method": 5},
    {"method": "status", "params": []},
    {"method": "status", "params": {"x": 1}},
    {"method": "status", "id": 1},
    {"method": "__class__"},
    {"method": "sessions.get", "params": {"id": "../"}},
    {"method": "sessions.get", "params": {"id": GONE, "messages": "5"}},
    {"method": "m" * 100_000},
]


async def test_a_call_by_name_that_is_none_is_refused(
    house: House, admin: str, subtests: pytest.Subtests
) -> None:
    for asked in RPC:
        with subtests.test(str(asked)[:100]):
            response = await house.ask("POST", "/v1/rpc", token=admin, json=asked)
            check_problem(response, 400, "invalid_input")
            assert len(response.content) < 2_000


async def test_two_credentials_are_none(house: House, admin: str) -> None:
    headers = [("Authorization", f"Bearer {admin}"), ("Authorization", "Bearer other")]
    await house.ask("GET", "/health")
    client = house._clients["127.0.0.1"]
    check_problem(await client.get("/v1/status", headers=headers), 401)
