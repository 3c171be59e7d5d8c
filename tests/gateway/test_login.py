"""Browsers: a one-time code becomes a cookie."""

from __future__ import annotations

import re
from http.cookies import Morsel, SimpleCookie
from pathlib import Path

import httpx

from clew.core.session import OWNER
from clew.gateway.auth import CODE_MS, Setup
from tests.gateway.conftest import House, check_problem, open_gatehouse


async def log_in(house: House, code: str, **more: str) -> httpx.Response:
    return await house.ask("POST", "/v1/login", json={"code": code}, headers=more)


def cookie_of(response: httpx.Response) -> Morsel[str]:
    (morsel,) = SimpleCookie(response.headers["set-cookie"]).values()
    return morsel


async def test_a_code_becomes_a_cookie_that_opens_what_a_token_opens(house: House) -> None:
    response = await log_in(house, house.gate.make_code())
    assert response.status_code == 200
    assert response.json()["person"] == OWNER
    cookie = cookie_of(response)
    assert cookie.key == house.gate.setup.cookie
    assert cookie["httponly"]
    assert cookie["samesite"] == "strict"
    assert cookie["path"] == "/"
    assert not cookie["secure"]  # it speaks no TLS here

    opened = await house.ask(
        "GET", "/v1/tokens", headers={"Cookie": f"{cookie.key}={cookie.value}"}
    )
    assert [each["name"] for each in opened.json()["tokens"]] == ["browser"]


async def test_the_value_of_a_cookie_is_no_bearer_token(house: House) -> None:
    cookie = cookie_of(await log_in(house, house.gate.make_code()))
    refused = await house.ask("GET", "/v1/status", token=cookie.value)
    check_problem(refused, 401, "unauthorized")
    headers = {"Cookie": f"{cookie.key}={cookie.value}"}
    assert (await house.ask("GET", "/v1/status", headers=headers)).status_code == 200


async def test_a_bearer_token_is_no_cookie(house: House, admin: str) -> None:
    headers = {"Cookie": f"{house.gate.setup.cookie}={admin}"}
    check_problem(await house.ask("GET", "/v1/status", headers=headers), 401, "unauthorized")
    assert (await house.ask("GET", "/v1/status", token=admin)).status_code == 200


async def test_a_cookie_as_a_token_counts_as_a_wrong_guess(house: House) -> None:
    cookie = cookie_of(await log_in(house, house.gate.make_code()))
    codes = [
        (await house.ask("GET", "/v1/status", token=cookie.value)).status_code for _ in range(11)
    ]
    assert codes == [401] * 10 + [429]


async def test_a_code_is_good_once(house: House) -> None:
    code = house.gate.make_code()
    assert (await log_in(house, code)).status_code == 200
    second = await log_in(house, code)
    assert "gateway link" in check_problem(second, 401, "unauthorized")["detail"]
    assert "set-cookie" not in second.headers


async def test_a_code_is_good_for_a_while(house: House) -> None:
    code = house.gate.make_code()
    house.watch.ahead = CODE_MS + 1_000
    check_problem(await log_in(house, code), 401)


async def test_several_browsers_are_signed_in_at_once_and_each_leaves_alone(house: House) -> None:
    cookies = []
    for _ in range(2):
        cookie = cookie_of(await log_in(house, house.gate.make_code()))
        cookies.append({"Cookie": f"{cookie.key}={cookie.value}"})
    first, second = cookies

    out = await house.ask("POST", "/v1/logout", headers=first)
    assert out.status_code == 204
    assert cookie_of(out)["max-age"] == "0"
    check_problem(await house.ask("GET", "/v1/status", headers=first), 401)
    assert (await house.ask("GET", "/v1/status", headers=second)).status_code == 200


async def test_a_token_survives_a_logout(house: House, admin: str) -> None:
    assert (await house.ask("POST", "/v1/logout", token=admin)).status_code == 204
    assert (await house.ask("GET", "/v1/status", token=admin)).status_code == 200


async def test_guessing_codes_ends_with_429(house: House) -> None:
    codes = [(await log_in(house, f"guess {n}")).status_code for n in range(12)]
    assert codes == [401] * 10 + [429] * 2


async def test_another_site_s_page_can_t_sign_a_browser_in(house: House) -> None:
    code = house.gate.make_code()
    check_problem(await log_in(house, code, Origin="https://evil.example"), 403)
    check_problem(await log_in(house, code, **{"Sec-Fetch-Site": "cross-site"}), 403)
    assert (await log_in(house, code)).status_code == 200  # it was not used up


async def test_a_good_cookie_does_not_help_a_wrong_token(house: House) -> None:
    cookie = cookie_of(await log_in(house, house.gate.make_code()))
    headers = {"Cookie": f"{cookie.key}={cookie.value}"}
    check_problem(await house.ask("GET", "/v1/status", token="wrong", headers=headers), 401)


async def test_only_an_admin_makes_links(house: House, admin: str) -> None:
    weak = await house.secret("write")
    check_problem(await house.ask("POST", "/v1/links", token=weak), 403)
    made = await house.ask("POST", "/v1/links", token=admin)
    assert made.status_code == 201
    assert made.json()["path"] == f"/#code={made.json()['code']}"
    assert (await log_in(house, made.json()["code"])).status_code == 200


async def test_the_cookie_is_for_tls_only_where_the_browser_speaks_it(tmp_path: Path) -> None:
    proxied = Setup(instance="x", hosts=("clew.example",), behind_proxy=True)
    async with open_gatehouse(tmp_path, proxied) as house:
        response = await log_in(
            house,
            house.gate.make_code(),
            **{
                "Host": "clew.example",
                "Origin": "https://clew.example",
                "X-Forwarded-Proto": "https",
            },
        )
        assert response.status_code == 200, response.text
        assert cookie_of(response)["secure"]


async def test_behind_a_proxy_the_address_is_the_proxy_s_last_word(tmp_path: Path) -> None:
    async with open_gatehouse(tmp_path, Setup(behind_proxy=True)) as house:

        async def guess(forwarded: str) -> int:
            headers = {"X-Forwarded-For": forwarded}
            return (await house.ask("GET", "/v1/status", token="no", headers=headers)).status_code

        # Whoever guesses can put anything in front of it, to no avail.
        codes = [await guess(f"10.9.9.{n}, 203.0.113.7") for n in range(11)]
        assert codes == [401] * 10 + [429]
        assert await guess("203.0.113.8") == 401


async def test_without_a_proxy_nobody_s_word_about_the_address_counts(house: House) -> None:
    codes = []
    for n in range(11):
        headers = {"X-Forwarded-For": f"203.0.113.{n}"}
        answer = await house.ask("GET", "/v1/status", token="no", headers=headers)
        codes.append(answer.status_code)
    assert codes[-1] == 429


async def test_the_first_page_loads_nothing_from_elsewhere(house: House) -> None:
    page = await house.ask("GET", "/")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert loaded == ["/icon.svg", "/manifest.webmanifest", "/app.css", "/app.js"]
    for path in loaded:
        assert (await house.ask("GET", path)).status_code == 200
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await house.ask("GET", "/", headers=linked)).status_code == 200


async def test_a_sign_in_and_a_wrong_link_are_events_without_an_address_or_a_code(
    house: House, admin: str
) -> None:
    code = house.gate.make_code()
    await log_in(house, code)
    for _ in range(3):
        await log_in(house, code)
    found = (await house.ask("GET", "/v1/status/events", token=admin)).json()["events"]
    assert [(each["kind"], each.get("count", 1)) for each in found] == [
        ("sign_in_refused", 3),
        ("signed_in", 1),
    ]
    assert code not in str(found)
