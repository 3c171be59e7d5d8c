"""`render=html`: the HTML of a page's messages."""

from __future__ import annotations

import httpx
import pytest

from clew.api.sessions import MessageHtml
from clew.client.client import Client
from clew.core.changes import AddMessage
from clew.core.message import Draft
from clew.errors import InvalidInput
from clew.runtime.lane.lease import hold
from tests.client.conftest import Place

THREAD = (
    Draft(role="user", content="*What* is\nit? <script>alert(1)</script>"),
    Draft(
        role="assistant",
        content="A **thread**.\n\n```python\nx = 1\n```",
        parts=({"type": "thinking", "thinking": "Hm, `clew`."},),
    ),
    Draft(role="tool", content="<b>\n", tool_name="look", tool_call_id="c1"),
)
CODE = (
    '<code class="language-python"><span class="n">x</span> <span class="o">=</span> '
    '<span class="mi">1</span>\n</code>'
)
HTML = [
    "<p>*What* is<br>it? &lt;script&gt;alert(1)&lt;/script&gt;</p>\n",
    f'<p>A <strong>thread</strong>.</p>\n<pre class="highlight">{CODE}</pre>\n',
    "<pre>&lt;b&gt;</pre>\n",
]


async def tell(place: Place) -> str:
    session = await place.session()
    async with hold(place.store, session.id, "test") as lease:
        for draft in THREAD:
            await place.store.record(session.id, lease.epoch, AddMessage(draft))
    return session.id


def texts(html: tuple[MessageHtml, ...] | None) -> list[str]:
    assert html is not None
    return [each.html for each in html]


async def test_messages_have_html_when_asked_for(place: Place, client: Client) -> None:
    session = await tell(place)
    page = await client.sessions.messages(session, render="html")
    assert page.html is not None
    assert texts(page.html) == HTML
    assert [each.thinking for each in page.html] == [None, "<p>Hm, <code>clew</code>.</p>\n", None]
    assert [each.seq for each in page.html] == [each.seq for each in page.messages]
    assert page.messages == await place.store.get_messages(session)


async def test_a_session_comes_with_the_html_of_its_newest_messages(
    place: Place, client: Client
) -> None:
    session = await tell(place)
    detail = await client.sessions.get(session, messages=2, render="html")
    assert texts(detail.html) == HTML[1:]
    assert (await client.sessions.get(session, messages=0, render="html")).html == ()


async def test_there_is_no_html_unless_asked_for(place: Place, client: Client) -> None:
    session = await tell(place)
    assert (await client.sessions.messages(session)).html is None
    assert (await client.sessions.get(session)).html is None


async def test_by_name_it_is_the_same(place: Place, client: Client) -> None:
    session = await tell(place)
    page = await client.sessions.messages(session, render="html")
    assert await client.call("sessions.messages", {"id": session, "render": "html"}) == page


async def test_another_form_is_refused(place: Place, client: Client) -> None:
    session = await tell(place)
    with pytest.raises(InvalidInput, match="render"):
        await client.call("sessions.messages", {"id": session, "render": "pdf"})
    if place.way == "http":
        token = await place.add_token("owner", ("read",))
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=place.url, headers=headers) as http:
            for path in (f"/v1/sessions/{session}", f"/v1/sessions/{session}/messages"):
                refused = await http.get(path, params={"render": "pdf"})
                assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")
                shown = await http.get(path, params={"render": "html"})
                assert [each["html"] for each in shown.json()["html"]] == HTML
