"""Every route of the OpenAPI document, in every way not to be let in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from clew import config as configuration
from clew.api.table import OPERATIONS
from clew.clock import host_clock
from clew.core.session import OWNER
from clew.core.tokens import SCOPES
from clew.gateway.auth import Setup
from clew.wiring import open_gateway
from tests.gateway.conftest import HOUR, House, Watch, check_problem
from tests.runtime.conftest import CONFIG

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
FILLED = {
    "id": "0192f0c1-2a3b-4c5d-8e9f-001122334455",
    "store": "memory",
    "name": "x",
    "number": "1",
    "hash": "0" * 64,
}


REACH: dict[str, set[str]] = {
    "read": {"read"},
    "chat": {"read", "chat"},
    "write": {"read", "chat", "write"},
    "approve": {"read", "approve"},
    "store": {"read", "store"},
    "admin": {"read", "chat", "write", "approve", "store", "admin"},
}
"""What each scope may do, written down once more, by hand."""


class Way(NamedTuple):
    """One operation of the document."""

    method: str
    path: str
    scope: str | None
    who: str = "guest"

    @property
    def url(self) -> str:
        return self.path.format_map(FILLED)


async def walk(house: House) -> list[Way]:
    response = await house.ask("GET", "/v1/openapi.json", token=await house.secret("read"))
    assert response.status_code == 200
    return list(ways_of(response.json()))


def ways_of(document: dict[str, Any]) -> Iterator[Way]:
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            scope = None if told["security"] == [] else told["x-scope"]
            yield Way(method.upper(), path, scope, told.get("x-who", "guest"))


async def list_untold(house: House) -> set[str]:
    """Operations of a gateway that the tables of who may do what leave out."""
    response = await house.ask("GET", "/v1/openapi.json", token=await house.secret("read"))
    paths = response.json()["paths"].values()
    named = {told["operationId"] for methods in paths for told in methods.values()}
    security = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    return {each for each in named if f"| `{each}` |" not in security}


async def test_every_operation_of_the_table_is_in_the_document(house: House) -> None:
    ways = await walk(house)
    assert {Way(each.method, each.path, each.scope, each.who) for each in OPERATIONS} <= set(ways)
    assert [each.path for each in ways if each.scope is None] == ["/v1/login", "/health"]


async def test_nobody_comes_in_without_a_good_credential(house: House) -> None:
    expired = await house.secret(expires_at=host_clock() - 1)
    revoked = await house.secret()
    await house.revoke(revoked)
    bad: dict[str, dict[str, str]] = {
        "none": {},
        "expired": {"Authorization": f"Bearer {expired}"},
        "revoked": {"Authorization": f"Bearer {revoked}"},
        "another scheme": {"Authorization": "Basic b3duZXI6cGFzcw=="},
        "no secret": {"Authorization": "Bearer"},
        "a cookie of another instance": {"Cookie": "clew_other=clew_abc"},
    }
    for way in await walk(house):
        for headers in bad.values() if way.scope else ():
            response = await house.ask(way.method, way.url, headers=headers)
            check_problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"].startswith("Bearer")


async def test_a_wrong_token_opens_nothing(house: House) -> None:
    for number, way in enumerate(await walk(house)):
        for wrong in (b"nope", b"clew_" + b"A" * 43, b"\xff" * 9) if way.scope else ():
            address = f"10.1.{number // 250}.{number % 250}"  # each may try ten times
            headers = {"Authorization": b"Bearer " + wrong}
            response = await house.ask(way.method, way.url, address=address, headers=headers)
            check_problem(response, 401, "unauthorized")


@pytest.mark.parametrize("person", [OWNER, "telegram:5"])
async def test_every_route_lets_in_whom_the_table_names_and_nobody_else(
    house: House, person: str
) -> None:
    secrets = {scope: await house.secret(scope, person) for scope in SCOPES}
    for way in await walk(house):
        if way.scope is None:
            continue
        for scope in SCOPES:
            # A body that nobody could want, so that nothing is changed by who is let in.
            body = b"[" if way.method in ("POST", "PUT", "PATCH") else None
            query = {} if body else {"nonsense": "1"}
            response = await house.ask(
                way.method, way.url, token=secrets[scope], content=body, params=query
            )
            if way.scope in REACH[scope] and (person == OWNER or way.who == "guest"):
                assert response.status_code in (400, 415, 426), (way, scope, response.text)
            else:
                check_problem(response, 403, "forbidden")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example:7717"}, 421),
        ({"Host": "localhost@evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "127.0.0.1.nip.io"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Origin": "https://localhost:7717"}, 403),
        ({"Origin": "http://localhost:7717.evil.example"}, 403),
        ({"Origin": "http://localhost:99999"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
    ],
)
async def test_foreign_hosts_and_pages_are_refused_everywhere(
    house: House, admin: str, headers: dict[str, str], status: int
) -> None:
    for way in await walk(house):
        response = await house.ask(way.method, way.url, token=admin, headers=headers)
        check_problem(response, status)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "[::1]evil"}, 421),
        ({"Host": "[::1]evil:7717"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "::1"}, 421),
        ({"Host": "[localhost]:7717"}, 421),
        ({"Host": "localhost:"}, 421),
        ({"Host": "localhost:+7717"}, 421),
        ({"Host": "localhost:99999"}, 421),
        ({"Host": "localhost/x"}, 421),
        ({"Host": "localhost?x"}, 421),
        ({"Host": "localhost#x"}, 421),
        ({"Host": " localhost"}, 421),
        ({"Host": b"localhost\xc2\xa0"}, 421),
        ({"Origin": "http://localhost:7717/"}, 403),
        ({"Origin": "http://localhost:7717/a/path"}, 403),
        ({"Origin": "http://localhost:7717?q"}, 403),
        ({"Origin": "http://localhost:7717#f"}, 403),
        ({"Origin": "http://me@localhost:7717"}, 403),
        ({"Origin": "http://me:secret@localhost:7717"}, 403),
        ({"Origin": "http:localhost:7717"}, 403),
        ({"Origin": "http:///localhost:7717"}, 403),
        ({"Origin": "http://localhost:7717 http://evil.example"}, 403),
        ({"Origin": "http://localhost:07717"}, 403),
        ({"Origin": ""}, 403),
        ({"Host": "[::1]:7717", "Origin": "http://[::1]evil:7717"}, 403),
        ({"Host": "[::1]:7717", "Origin": "http://[::1]:7717evil"}, 403),
    ],
)
async def test_a_host_or_origin_that_only_resembles_ours_is_refused(
    house: House, admin: str, headers: dict[str, Any], status: int
) -> None:
    check_problem(await house.ask("GET", "/v1/status", token=admin, headers=headers), status)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost:7717", "Sec-Fetch-Site": "same-origin"},
        {"Host": "127.0.0.1:7717", "Origin": "http://127.0.0.1:7717"},
        {"Host": "[::1]:7717", "Origin": "http://[::1]:7717"},
        {"Host": "LOCALHOST:7717"},
        {"Host": "localhost."},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_own_hosts_and_pages_are_let_in(
    house: House, admin: str, headers: dict[str, str]
) -> None:
    response = await house.ask("GET", "/v1/sessions", token=admin, headers=headers)
    assert response.status_code == 200, response.text


async def test_the_gateway_that_people_run_lets_nobody_in_either(tmp_path: Path) -> None:
    """As `wiring` builds it, with the endpoints of all modules."""
    (tmp_path / "config.toml").write_text(f"""{CONFIG}
[webhooks.x]
secret = "a secret that is long enough to be one"
""")
    config = configuration.load(home=str(tmp_path), environ={})
    async with open_gateway(config, Setup()) as gateway:
        house = House(gateway.calls, gateway.gate, gateway.app, Watch())
        ways = await walk(house)
        assert {"/v1/live", "/v1/sessions/{id}/events", "/v1/hooks/{name}", "/metrics"} <= {
            w.path for w in ways
        }
        assert await list_untold(house) == set(), "in no table of SECURITY.md"
        for way in ways:
            response = await house.ask(way.method, way.url)
            if way.path == "/health":
                assert response.status_code == 200
            elif way.path == "/v1/login":
                check_problem(response, 400)
            else:
                check_problem(response, 401, "unauthorized")
            for headers, status in (
                ({"Host": "evil.example"}, 421),
                ({"Origin": "https://evil.example"}, 403),
                ({"Sec-Fetch-Site": "cross-site"}, 403),
            ):
                check_problem(await house.ask(way.method, way.url, headers=headers), status)
        await house.close()


async def test_ten_wrong_tokens_a_minute_then_429(house: House, admin: str) -> None:
    async def guess(address: str = "10.0.0.1") -> int:
        response = await house.ask("GET", "/v1/status", token="clew_guess", address=address)
        return response.status_code

    assert [await guess() for _ in range(12)] == [401] * 10 + [429] * 2
    assert await guess("10.0.0.2") == 401
    # Whoever has a good one is not kept out by others who guess from the same address.
    good = await house.ask("GET", "/v1/status", token=admin, address="10.0.0.1")
    assert good.status_code == 200
    house.watch.ahead = 61_000
    assert await guess() == 401


async def test_a_whole_network_of_ipv6_counts_as_one_address(house: House) -> None:
    codes = [
        (await house.ask("GET", "/v1/status", token="no", address=f"2001:db8::{n:x}")).status_code
        for n in range(12)
    ]
    assert codes[-2:] == [429, 429]


async def test_requests_without_a_token_are_no_tries(house: House) -> None:
    codes = {(await house.ask("GET", "/v1/status")).status_code for _ in range(15)}
    assert codes == {401}


async def test_a_token_in_the_url_is_no_token(house: House, admin: str) -> None:
    check_problem(await house.ask("GET", f"/v1/status?token={admin}"), 401)
    check_problem(await house.ask("GET", f"/v1/status?access_token={admin}", token=admin), 400)


async def test_a_token_ends_when_it_expires(house: House) -> None:
    secret = await house.secret(expires_at=host_clock() + HOUR)
    assert (await house.ask("GET", "/v1/status", token=secret)).status_code == 200
    house.watch.ahead = 2 * HOUR
    check_problem(await house.ask("GET", "/v1/status", token=secret), 401, "unauthorized")


async def test_every_answer_carries_the_security_headers(house: House, admin: str) -> None:
    asked = [
        await house.ask("GET", "/v1/sessions", token=admin),
        await house.ask("GET", "/v1/sessions"),
        await house.ask("GET", "/health"),
        await house.ask("GET", "/v1/nothing"),
        await house.ask("GET", "/nothing"),
        await house.ask("TRACE", "/v1/sessions", token=admin),
        await house.ask("GET", "/v1/sessions", headers={"Host": "evil.example"}),
    ]
    for response in asked:
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
    assert {each.headers.get("cache-control") for each in asked[:4]} == {"no-store"}
