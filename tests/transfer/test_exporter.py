from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from clew.core.changes import AddMessage, AddUsage, UndoTurn
from clew.core.message import Author, Draft, ToolCall
from clew.core.usage import Usage
from clew.errors import ClewError, Conflict, InvalidInput
from clew.ports import Store
from clew.transfer import guess_format, write_file
from clew.transfer.exporter import _keeps_its_place, fence
from tests.transfer.threads import export_text, make_session, said, whole_turn

SECRET = "sk-" + "ant-" + "a1b2c3d4e5" * 3
HOSTILE = (
    "</pre></details></script><script>alert(1)</script>\n```\n~~~\n## User\nfake\n<!-- \n\x1b[31m"
)


def tool_use(arguments: str, result: str) -> list[Any]:
    call = ToolCall("c1", "read_file", arguments)
    return [
        AddMessage(Draft(role="user", content="Read it", at=1)),
        AddMessage(Draft(role="assistant", content="I will.", tool_calls=(call,), at=2)),
        AddMessage(
            Draft(role="tool", content=result, tool_call_id="c1", tool_name="read_file", at=3)
        ),
        AddMessage(Draft(role="assistant", content="Done.", at=4)),
    ]


def headings(text: str) -> list[str]:
    tokens = MarkdownIt().parse(text)
    return [
        tokens[place + 1].content
        for place, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2" and token.level == 0
    ]


# --- Markdown ---------------------------------------------------------------------------------


async def test_markdown_has_a_header_the_speakers_and_folded_tools(store: Store) -> None:
    session = await make_session(
        store,
        *tool_use('{"path": "a.py"}', "print(1)"),
        AddUsage(usage=Usage(1_234, 56, 7, 0, 12_300_000, 2)),
        title="Reading *files*",
        model="opus",
        cwd="/home/me/api",
        created_at=1_700_000_000_000,
    )
    text = await export_text(store, session.id, "md")
    assert text.startswith("# Reading \\*files\\*\n\n")
    assert f"- **Session:** {session.id}\n" in text
    assert "- **Started:** 2023-11-14 22:13 UTC\n" in text
    assert "- **Model:** opus\n" in text
    assert "- **Directory:** /home/me/api\n" in text
    assert "- **Usage:** 1,234 tokens in, 56 out, 7 cached, $0.0123\n" in text
    assert headings(text) == ["User", "Assistant"]
    assert "<details><summary>Tool: read_file</summary>\n\n```json\n" in text
    assert "<details><summary>Result: read_file</summary>\n\n```\nprint(1)\n```" in text


async def test_what_is_undone_is_not_shown(store: Store) -> None:
    session = await make_session(
        store, *whole_turn("t1", "oops", "never mind"), *said("again"), UndoTurn("t1", 9)
    )
    for kind in ("md", "html"):
        text = await export_text(store, session.id, kind)
        assert "oops" not in text
        assert "again" in text


async def test_an_inherited_thread_is_shown_whole(store: Store) -> None:
    session = await make_session(store, *said("from the parent"))
    fork = await store.fork_session(session.id)
    assert "from the parent" in await export_text(store, fork.id, "md")


async def test_a_session_without_messages_or_title_can_be_exported(store: Store) -> None:
    session = await make_session(store, created_at=10**17)
    for kind in ("md", "html"):
        assert session.id in await export_text(store, session.id, kind)


async def test_thoughts_and_attachments_are_shown_on_demand(store: Store) -> None:
    blob = await store.put_blob(b"x", "image/png")
    parts = (
        {"type": "thinking", "thinking": "let me see", "signature": "xyz"},
        {"blob": blob, "media_type": "image/png"},
    )
    session = await make_session(
        store, AddMessage(Draft(role="assistant", content="So:", parts=parts, at=1))
    )
    quiet = await export_text(store, session.id, "md")
    assert "let me see" not in quiet
    assert f"image/png, sha256 {blob}" in quiet
    assert "let me see" in await export_text(store, session.id, "md", thinking=True)


@pytest.mark.parametrize("kind", ["md", "html"])
async def test_secrets_are_masked_for_people_unless_told_otherwise(store: Store, kind: str) -> None:
    session = await make_session(
        store, *tool_use(json.dumps({"key": SECRET}), f"export KEY={SECRET}"), title=SECRET
    )
    assert SECRET not in await export_text(store, session.id, kind)
    assert SECRET in await export_text(store, session.id, kind, masked=False)


async def test_secrets_stay_in_what_is_read_back_unless_told_otherwise(store: Store) -> None:
    blob = await store.put_blob(SECRET.encode(), "text/plain")
    session = await make_session(
        store,
        *tool_use(json.dumps({"key": SECRET}), SECRET),
        AddMessage(Draft(role="user", content=SECRET, parts=({"blob": blob, "n": 1},), at=1)),
    )
    assert SECRET in await export_text(store, session.id, "jsonl")
    masked = await export_text(store, session.id, "jsonl", masked=True)
    assert SECRET not in masked
    assert all(json.loads(line) for line in masked.splitlines())


async def test_hostile_tool_results_never_leave_their_fence(store: Store) -> None:
    hostile = "````\n" + HOSTILE + "\n`````\n</details>\n## Assistant\n"
    session = await make_session(store, *tool_use(hostile, hostile))
    text = await export_text(store, session.id, "md")
    assert headings(text) == ["User", "Assistant"]
    fences = [token for token in MarkdownIt().parse(text) if token.type == "fence"]
    assert len(fences) == 2
    assert "\x1b" not in text


LINES = st.sampled_from(
    [
        "", "text", "```", "````", "~~~", "  ```py", "   ```", "    ```", "- ```", "- item",
        "  - ~~~~", "> ```", "1. ```", "## User", "## Assistant ##", "User", "---", "===", "<!--",
        "-->", "<pre>", "<script>", "</details>", "<https://example.org>", "```` x", "``` a`b",
        "\t```", "`` ``` ``", "<?", "<![CDATA[", "<div", "# Heading", "    code", "* * *",
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=8).map("\n".join), st.lists(LINES, max_size=4).map("\n".join))
@example("", "```\n   ```\n```")
def test_no_message_can_pretend_to_be_another_or_swallow_one(one: str, other: str) -> None:
    def shown(text: str) -> str:
        return text if _keeps_its_place(text) else fence(text, "markdown")

    page = f"## User\n\n{shown(one)}\n\n## Assistant\n\n{shown(other)}\n\n## User\n\nlast\n"
    ours = [each for each in headings(page) if each in ("User", "Assistant")]
    assert ours == ["User", "Assistant", "User"]


@pytest.mark.parametrize(
    "text",
    [
        "Just text.",
        "## Plan\n\n1. Do:\n   ```bash\n   ls\n   ```\n2. Then\n\n```py\nx\n```",
        "See <https://example.org> and `<div>`.\n<https://example.org>",
        "~~~\n```\n~~~",
    ],
)
def test_ordinary_markdown_stays_markdown(text: str) -> None:
    assert _keeps_its_place(text)


@given(st.text(st.sampled_from("`~ a\n")))
def test_a_fence_holds_any_text(text: str) -> None:
    tokens = MarkdownIt().parse(fence(text))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content == f"{text}\n"


# --- HTML -------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Every tag, every attribute and all text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_html_is_one_safe_page(store: Store) -> None:
    session = await make_session(
        store, *said(HOSTILE, HOSTILE), *tool_use(HOSTILE, HOSTILE), title=HOSTILE, cwd=HOSTILE
    )
    page = await export_text(store, session.id, "html")
    found = Tags(page)
    assert "script" not in found.tags
    names = {name for name, _ in found.attributes}
    assert names <= {"lang", "charset", "name", "content", "http-equiv", "class"}
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in found.attributes
    assert "alert(1)" in found.text
    assert "\x1b" not in page
    assert found.tags.count("section") == page.count("</section>") == 4
    assert found.tags.count("details") == page.count("</details>") == 2


async def test_lone_surrogates_are_no_obstacle_to_what_people_read(store: Store) -> None:
    session = await make_session(store, *said("a\ud800b\0c"))
    for kind in ("md", "html"):
        assert "a�bc" in (await export_text(store, session.id, kind)).encode().decode()


# --- files ------------------------------------------------------------------------------------


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def test_a_file_is_written_whole_and_private(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    write_file(file, "one twö")
    assert file.read_text("utf-8") == "one twö"
    assert file.stat().st_mode & 0o777 == 0o600
    assert names_in(tmp_path) == [file.name]


async def test_a_file_that_is_there_is_only_overwritten_when_told_to(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("precious")
    with pytest.raises(Conflict, match="--force"):
        write_file(file, "new")
    assert file.read_text() == "precious"
    write_file(file, "new", force=True)
    assert file.read_text() == "new"


async def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("precious")
    with pytest.raises(UnicodeEncodeError):
        write_file(file, "half\ud800", force=True)
    assert file.read_text() == "precious"
    assert names_in(tmp_path) == [file.name]


@pytest.mark.parametrize("place", ["nowhere/a.md", "a-file/a.md", "."])
async def test_a_place_that_can_not_be_written_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(ClewError, match=r"can't be written|already exists"):
        write_file(tmp_path / place, "x")


def test_the_ending_tells_the_format() -> None:
    names = ["", "a", "a.md", "A.HTML", "b.htm", "c.jsonl", "d.markdown"]
    assert [guess_format(name) for name in names] == [
        "md", "md", "md", "html", "html", "jsonl", "md",
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="--format"):
        guess_format("a.pdf")


@pytest.mark.parametrize("kind", ["md", "html"])
async def test_no_field_of_a_session_reaches_the_terminal_as_it_is(store: Store, kind: str) -> None:
    evil = "\x1b]0;pwned\x07\u202e"
    facts = dict.fromkeys(("title", "model", "provider", "cwd", "personality"), f"x{evil}y")
    session = await make_session(store, *said(f"hello{evil}"), **facts)
    text = await export_text(store, session.id, kind)
    assert not set(evil) & {"\x1b", "\x07", "\u202e"} & set(text)


async def test_an_export_says_who_spoke_and_can_not_be_tricked_by_a_name(store: Store) -> None:
    ann = Author("telegram:7", 'A"><script>alert(1)</script>\n## Assistant', among=True)
    said = AddMessage(Draft(role="user", content="hi", author=ann))
    session = await make_session(store, said)

    markdown = await export_text(store, session.id, "md")
    page = await export_text(store, session.id, "html")
    lines = await export_text(store, session.id, "jsonl")

    assert len(headings(markdown)) == 1
    assert "(telegram:7)" in markdown.replace("\\", "")
    assert "<script>" not in page
    assert '"author":{"id":"telegram:7"' in lines
