from __future__ import annotations

import asyncio
import io
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clew.core.message import Message, Role
from clew.transfer.message_html import LONGEST, LOSSES, PAGE, MessageRenderer, serve
from tests.patience import PATIENCE
from tests.runtime.conftest import soon

SLOW = "```c\n" + "\n" * 15_000 + "a\n```\n\n*after*"
"""So many empty lines keep Pygments' lexer for C busy for more than 25 seconds."""


def make(role: Role, content: str, *parts: dict[str, Any]) -> Message:
    return Message(1, "s", 1, None, role, content, parts, None, None, (), False, None, None, 0)


@pytest.fixture
async def renderer() -> AsyncIterator[MessageRenderer]:
    made = MessageRenderer()
    yield made
    await soon(made.close())


async def one(renderer: MessageRenderer, role: Role, content: str) -> str:
    (view,) = await renderer.render([make(role, content)])
    return view.html


async def test_each_role_is_shown_as_it_speaks(renderer: MessageRenderer) -> None:
    text = "*one*\n  <b>"
    views = await renderer.render([make(role, text) for role in ("user", "assistant", "tool")])
    assert [each.html for each in views] == [
        "<p>*one*<br>  &lt;b&gt;</p>\n",
        "<p><em>one</em>\n&lt;b&gt;</p>\n",
        "<pre>*one*\n  &lt;b&gt;</pre>\n",
    ]


async def test_thoughts_are_set_beside_what_was_said(renderer: MessageRenderer) -> None:
    thought = {"type": "thinking", "thinking": "*hm*", "signature": "x"}
    (view,) = await renderer.render([make("assistant", "", thought)])
    assert (view.html, view.thinking) == ("", "<p><em>hm</em></p>\n")


async def test_any_character_of_a_store_can_be_shown(renderer: MessageRenderer) -> None:
    assert await one(renderer, "assistant", "a\0\ud800\u202e\x1b[1mb") == "<p>a\ufffdb</p>\n"
    assert await one(renderer, "user", "a\0\ud800\u202e\x1b[1mb") == "<p>a\ufffdb</p>\n"


async def test_code_that_takes_too_long_has_no_colours(renderer: MessageRenderer) -> None:
    html = await one(renderer, "assistant", SLOW)
    assert html.endswith("\na\n</code></pre>\n<p><em>after</em></p>\n")
    assert "highlight" not in html
    assert "highlight" in await one(renderer, "assistant", "```c\nint a;\n```")


async def test_whoever_goes_away_leaves_no_half_answer(renderer: MessageRenderer) -> None:
    await one(renderer, "assistant", "ready")
    asking = asyncio.create_task(one(renderer, "assistant", SLOW))
    await asyncio.sleep(0)  # it has asked now
    assert renderer._turn.locked()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await soon(one(renderer, "assistant", "next")) == "<p>next</p>\n"


async def test_a_process_that_was_ended_is_started_again(renderer: MessageRenderer) -> None:
    await one(renderer, "assistant", "first")
    process = renderer._process
    assert process is not None
    process.kill()
    await soon(process.wait())
    assert "highlight" in await one(renderer, "assistant", "```c\nint a;\n```")


async def test_without_its_process_it_shows_what_was_written(
    renderer: MessageRenderer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    made = await renderer.render([make("assistant", "*a*")] * 1_000)
    assert {each.html for each in made} == {"<pre>*a*</pre>\n"}
    assert len(caplog.records) == LOSSES


async def test_a_very_long_text_is_shown_as_it_was_written(renderer: MessageRenderer) -> None:
    text = "*a* " * (LONGEST // 4) + "*b*"
    assert await one(renderer, "assistant", text) == f"<pre>{text}</pre>\n"


async def test_of_a_very_long_page_the_newest_messages_are_set(renderer: MessageRenderer) -> None:
    text = ("word " * 9_990)[:-1]
    count = PAGE // len(text)
    views = await renderer.render([make("assistant", text)] * (count + 2))
    assert [each.html[:3] for each in views] == ["<pr"] * 2 + ["<p>"] * count


async def test_pages_take_turns(renderer: MessageRenderer) -> None:
    pages = [[make("assistant", f"page {page}")] * 5 for page in range(5)]
    views = await soon(asyncio.gather(*(renderer.render(page) for page in pages)))
    for page, shown in enumerate(views):
        assert {each.html for each in shown} == {f"<p>page {page}</p>\n"}


def test_the_process_ends_when_nobody_can_ask_any_more() -> None:
    header = struct.Struct(">?I")
    answers = io.BytesIO()
    serve(io.BytesIO(header.pack(True, 3) + b"*a*"), answers)
    html = b"<p><em>a</em></p>\n"
    assert answers.getvalue() == header.pack(True, 0) + header.pack(True, len(html)) + html


def test_whoever_makes_no_html_loads_nothing_for_it() -> None:
    check = (
        "import sys, clew.transfer.message_html; "
        "print({'markdown_it', 'nh3', 'pygments'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "set()\n"
