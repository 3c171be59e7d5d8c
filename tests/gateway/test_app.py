"""The table over HTTP: statuses, versions, files, and the same by name."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from clew import errors
from clew.api.problems import status_of
from clew.api.table import OPERATIONS
from clew.core.changes import AddMessage
from clew.core.message import Draft, ToolCall
from clew.core.session import NewSession
from clew.errors import ClewError
from clew.gateway.auth import Credential
from clew.gateway.endpoints import Endpoint
from clew.ports import LiveTurn
from tests.gateway.conftest import HOME, House, check_problem, open_gatehouse
from tests.runtime.conftest import saying, soon, until
from tests.runtime.receiving import incoming


async def talk(house: House, token: str, text: str = "Hello") -> str:
    """A session in which this was said and answered."""
    response = await house.ask("POST", "/v1/chat", token=token, json={"text": text})
    assert response.status_code == 202, response.text
    session: str = response.json()["session"]
    await soon(house.calls.parts.runtime.join(session))
    return session


async def test_health_needs_no_token_and_tells_nothing_else(house: House) -> None:
    response = await house.ask("GET", "/health")
    assert response.json() == {"status": "ok"}


async def test_a_message_is_accepted_and_answered(house: House, admin: str) -> None:
    session = await talk(house, admin)
    shown = (await house.ask("GET", f"/v1/sessions/{session}", token=admin)).json()
    assert [each["content"] for each in shown["messages"]] == ["Hello", "ok"]


async def test_a_question_of_a_turn_from_a_channel_is_listed_and_answered(
    house: House, admin: str
) -> None:
    answers = []

    async def scene(turn: LiveTurn) -> None:
        call = ToolCall(id="call_1", name="shell")
        used = Draft(role="assistant", tool_calls=(call,))
        await turn.record(AddMessage(used, turn.id, from_person=False))
        answers.append((await turn.ask(call, {"command": "ls"})).decision)
        await saying("done")(turn)

    house.actor.scenes = [scene]
    reception = house.calls.parts.runtime.reception
    receipt = await reception.receive(incoming("list the files", channel="telegram", by="1"))

    async def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]]
        found = (await house.ask("GET", "/v1/approvals", token=admin)).json()["approvals"]
        return found

    async def is_listed() -> bool:
        return bool(await listed())

    await until(is_listed)
    (question,) = await listed()
    assert question["session_id"] == receipt.session_id
    assert question["request"] == {"command": "ls"}
    path = f"/v1/approvals/{question['id']}"
    decided = await house.ask("POST", path, token=admin, json={"decision": "yes"})
    assert decided.json()["decision"] == "yes"
    await soon(house.calls.parts.runtime.join(receipt.session_id or ""))
    assert answers == ["yes"]
    assert await listed() == []
    reply, asked = await house.store.list_outbound()
    assert (reply.channel, reply.content) == ("telegram", "done")
    assert asked.content.startswith("May I use shell?")


async def test_a_version_guards_a_change(house: House, admin: str) -> None:
    session = await house.session()
    path = f"/v1/sessions/{session.id}"
    seen = (await house.ask("GET", path, token=admin)).headers["etag"]

    first = await house.ask(
        "PATCH", path, token=admin, json={"title": "one"}, headers={"If-Match": seen}
    )
    assert first.status_code == 200
    assert first.headers["etag"] != seen
    stale = await house.ask(
        "PATCH", path, token=admin, json={"title": "two"}, headers={"If-Match": seen}
    )
    assert check_problem(stale, 412, "stale_revision")["about"]["session_id"] == session.id
    # Without a guard it is unconditional, and null clears.
    cleared = await house.ask("PATCH", path, token=admin, json={"title": None})
    assert cleared.json()["title"] is None


async def test_a_version_guards_the_memory(house: House, admin: str) -> None:
    path = "/v1/memory/user"
    seen = (await house.ask("GET", path, token=admin)).headers["etag"]
    body = {"content": "Likes tea.\n"}
    written = await house.ask("PUT", path, token=admin, json=body, headers={"If-Match": seen})
    assert written.status_code == 200, written.text
    stale = await house.ask("PUT", path, token=admin, json=body, headers={"If-Match": seen})
    check_problem(stale, 412, "stale_memory")


async def test_an_export_is_a_file_to_keep_and_no_page(house: House, admin: str) -> None:
    session = await talk(house, admin, "<script>alert(1)</script>")
    path = f"/v1/sessions/{session}/export"
    page = await house.ask("GET", path, token=admin, params={"format": "html"})
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in page.headers["content-security-policy"]
    by_name = await house.ask(
        "POST",
        "/v1/rpc",
        token=admin,
        json={"method": "sessions.export", "params": {"id": session, "format": "html"}},
    )
    assert by_name.json()["content"] == page.text


async def test_the_same_operations_go_by_name(house: House, admin: str) -> None:
    session = await house.session(title="quiet")
    asked = {"method": "sessions.get", "params": {"id": session.id, "messages": 1}}
    by_name = await house.ask("POST", "/v1/rpc", token=admin, json=asked)
    by_path = await house.ask("GET", f"/v1/sessions/{session.id}?messages=1", token=admin)
    assert by_name.json() == by_path.json()
    assert by_name.headers["etag"] == by_path.headers["etag"]


async def test_a_name_needs_the_scope_that_its_path_needs(
    house: House, subtests: pytest.Subtests
) -> None:
    weak = await house.secret("read")
    for operation in OPERATIONS:
        with subtests.test(operation.name):
            asked = {"method": operation.name, "params": {"nonsense": 1}}
            response = await house.ask("POST", "/v1/rpc", token=weak, json=asked)
            check_problem(response, 400 if operation.scope == "read" else 403)


async def test_a_guest_sees_their_own_sessions_only(house: House) -> None:
    guest = await house.secret("write", "alice")
    mine = await house.session("sdk:mine", person="alice")
    other = await house.session("sdk:other")
    listed = (await house.ask("GET", "/v1/sessions", token=guest)).json()["sessions"]
    assert [each["id"] for each in listed] == [mine.id]
    for method, path in (
        ("GET", f"/v1/sessions/{other.id}"),
        ("GET", f"/v1/sessions/{other.id}/messages"),
        ("GET", f"/v1/sessions/{other.id}/export"),
        ("DELETE", f"/v1/sessions/{other.id}"),
        ("POST", f"/v1/sessions/{other.id}/fork"),
        ("POST", f"/v1/sessions/{other.id}/stop"),
    ):
        response = await house.ask(method, path, token=guest)
        check_problem(response, 404, "session_not_found")


async def test_text_that_utf_8_can_t_carry_is_still_an_answer(house: House, admin: str) -> None:
    session = await house.store.create_session(NewSession(key="cli:odd", title="odd \ud800 title"))
    response = await house.ask("GET", f"/v1/sessions/{session.id}", token=admin)
    assert response.json()["session"]["title"] == "odd \ufffd title"


async def test_head_is_get_without_a_body(house: House, admin: str) -> None:
    response = await house.ask("HEAD", "/v1/sessions", token=admin)
    assert response.status_code == 200


async def test_a_bug_is_a_problem_that_tells_nothing(tmp_path: Path) -> None:
    async def break_down(_request: Request, _given: Credential) -> Response:
        raise RuntimeError("the secret inside")

    operation = msgspec.structs.replace(OPERATIONS[0], path="/v1/broken")
    endpoint = Endpoint(operation=operation, respond=break_down)
    async with open_gatehouse(tmp_path, endpoints=[endpoint]) as house:
        headers = {"Authorization": f"Bearer {await house.secret()}"}
        transport = httpx.ASGITransport(house.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=HOME) as client:
            response = await client.get("/v1/broken", headers=headers)
    check_problem(response, 500, "internal")
    assert "secret" not in response.text
    assert response.headers["content-security-policy"].startswith("default-src 'none'")


async def test_two_endpoints_at_one_address_are_refused_at_the_start(tmp_path: Path) -> None:
    async def stand_in(_request: Request, _given: Credential) -> Response:
        raise NotImplementedError

    endpoint = Endpoint(operation=OPERATIONS[0], respond=stand_in)
    with pytest.raises(TypeError, match="two endpoints at GET /v1/sessions"):
        async with open_gatehouse(tmp_path, endpoints=[endpoint]):
            pass


# --- the document -------------------------------------------------------------------------------


async def test_the_document_is_sound(house: House, admin: str) -> None:
    document = (await house.ask("GET", "/v1/openapi.json", token=admin)).json()
    assert document["openapi"] == "3.1.0"
    names = [told["operationId"] for path in document["paths"].values() for told in path.values()]
    assert len(names) == len(set(names))
    for reference in references_of(document):
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    for path, methods in document["paths"].items():
        for told in methods.values():
            placed = {each["name"] for each in told["parameters"] if each["in"] == "path"}
            assert {f"{{{name}}}" for name in placed} == {p for p in path.split("/") if "{" in p}
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


def references_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "$ref":
                yield each
            else:
                yield from references_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from references_of(each)


async def test_answers_are_what_the_document_says(house: House, admin: str) -> None:
    document = (await house.ask("GET", "/v1/openapi.json", token=admin)).json()
    session = await talk(house, admin)
    await house.ask("PUT", "/v1/memory/memory", token=admin, json={"content": "tea\n"})
    again = {"text": "Hello", "session": session}
    said = (await house.ask("POST", "/v1/chat", token=admin, json=again)).json()
    ids = {
        "queue.wait": said["inbound"],
        "queue.get": said["inbound"],
        "personalities.get": "default",
    }
    given = {
        "id": session,
        "value": session,
        "q": "hello",
        "ids": session,
        "channel": "telegram",
        "key": "agent:main:main",
        "updated_at": "2026-03-09T23:00",
        "message": "/new",
        "cwd": "/srv",
        "project": "/srv",
    }
    for operation in OPERATIONS:
        if operation.method != "GET" or operation.answer == "file":
            continue
        about = ids.get(operation.name, session)
        path = operation.path.format(id=about, store="memory", number=1)
        needed = [each.name for each in msgspec.structs.fields(operation.takes) if each.required]
        query = {each: given[each] for each in needed if each in operation.other_fields}
        response = await house.ask("GET", path, token=admin, params=query)
        assert response.status_code == 200, (operation.name, response.text)
        told = document["paths"][operation.path]["get"]["responses"]["200"]
        schema = told["content"]["application/json"]["schema"]
        whole = schema | {"components": document["components"]}
        jsonschema_rs.validate(whole, response.json())


# --- errors -------------------------------------------------------------------------------------


def every_error() -> list[type[ClewError]]:
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, ClewError)
    ]


BUGS = {errors.ClewError, errors.HookFailed}
"""Those that nobody expects at an operation."""


@pytest.mark.parametrize("kind", every_error(), ids=lambda each: each.__name__)
def test_every_error_has_a_status(kind: type[ClewError]) -> None:
    status = status_of(kind.__new__(kind))
    assert HTTPStatus(status) >= 400
    assert (status == 500) is (kind in BUGS)


@pytest.mark.parametrize(
    "kind",
    [
        each
        for each in every_error()
        if issubclass(each, errors.InvalidInput | errors.NotFound | errors.Conflict)
    ],
    ids=lambda each: each.__name__,
)
def test_what_a_caller_did_wrong_is_never_a_5xx(kind: type[ClewError]) -> None:
    assert status_of(kind.__new__(kind)) < 500
    assert msgspec.json.encode(kind.code)
