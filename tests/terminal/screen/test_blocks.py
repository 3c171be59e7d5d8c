"""What blocks look like: any text, in any width, whole or streamed; and what may never come out."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from clew.core.message import ToolCall
from clew.core.text import strip_controls
from clew.terminal.screen.block_list import BlockList
from clew.terminal.screen.blocks import Block
from clew.terminal.screen.event_blocks import list_blocks
from clew.terminal.screen.find import find_spans
from clew.terminal.screen.markdown import MarkdownText, Piece, Stream, chunk, split
from clew.terminal.screen.styles import Palette, get_styles
from clew.terminal.screen.tool_blocks import ToolBlock, compare, find_difference
from tests.sizes import pick
from tests.terminal.screen.stage import say

PALETTE = Palette(get_styles(Style.parse("white on black"), lambda _: Style.parse("red on blue")))

MARKDOWN = st.lists(
    st.sampled_from(
        ["# ", "## h", "- ", "1. ", "2) ", "> ", "    ", "  ", "\n", "\n\n", "```", "```python\n",
         "~~~\n", "---", "===", "| a | b |\n", "|---|---|\n", "text ", "*em*", "**b**", "`c`",
         "[l](http://x.y)", "![i](u)", "<b>", "</kbd>", "<kbd>", "&#27;[31m", "&#x202e;", "&lt;",
         "\t", "\\", "[1]: http://x\n", "漢字", "👨‍👩‍👧", "👨", "\u200d", "❤", "\ufe0f", "👋🏽",
         "🇩🇪", "e\u0301", "#", "=", "-", "+ ", "* ",
         "10. ", "<http://a.b>", "\x1b]0;title\x07", "\x9b2J", "\u202e", "\u200b", "\ud800", "\r"]
    ),
    max_size=30,
).map("".join)  # fmt: skip
TEXTS = MARKDOWN | st.text(st.characters(), max_size=120)


def words(strips: list[Strip]) -> list[str]:
    return [strip.text for strip in strips]


def check(strips: list[Strip], width: int) -> None:
    for strip in strips:
        assert cell_len(strip.text) == strip.cell_length <= width
        assert strip_controls(strip.text, keep_newlines=False) == strip.text
        assert "\t" not in strip.text
        assert not any(segment.style and segment.style.link for segment in strip)


@settings(max_examples=pick(60, 300), deadline=None)
@given(TEXTS, st.integers(1, 60))
def test_any_answer_keeps_to_the_width_and_drives_no_terminal(text: str, width: int) -> None:
    check(MarkdownText(text).draw(PALETTE, width), width)


@settings(max_examples=pick(40, 200), deadline=None)
@given(TEXTS, TEXTS, st.booleans(), st.integers(1, 60))
def test_any_message_keeps_to_the_width_and_drives_no_terminal(
    text: str, other: str, verbose: bool, width: int
) -> None:
    calls = (
        ToolCall("a", "edit_file", ""),
        ToolCall("b", text, other),
    )
    messages = (
        say(1, "user", text),
        say(2, "assistant", other, parts=({"type": "thinking", "text": text},), tool_calls=calls),
        say(3, "tool", other, tool_call_id="b"),
        say(4, "tool", text, tool_call_id="c", tool_name=other, is_error=True),
    )
    blocks = list_blocks(messages)
    blocks.append(ToolBlock("d", "edit_file", {"path": text, "old": text, "new": other}))
    for block in blocks:
        check(block.lines(PALETTE, width, verbose=verbose), width)
        block.folded = False
        check(block.lines(PALETTE, width, verbose=verbose), width)


@settings(max_examples=pick(40, 200), deadline=None)
@given(MARKDOWN, st.data())
def test_a_streamed_answer_ends_as_the_picture_of_the_whole_one(
    text: str, data: st.DataObject
) -> None:
    streamed, at = MarkdownText(), 0
    while at < len(text):
        size = data.draw(st.integers(1, 12))
        streamed.feed(text[at : at + size])
        streamed.draw(PALETTE, 30)
        at += size
    streamed.finish()
    assert words(streamed.draw(PALETTE, 30)) == words(MarkdownText(text).draw(PALETTE, 30))
    streamed.finish(text)
    assert streamed.draw(PALETTE, 30) == MarkdownText(text).draw(PALETTE, 30)


@settings(max_examples=pick(60, 300), deadline=None)
@given(MARKDOWN.map(strip_controls))
def test_pieces_that_were_final_stay_as_they_are(text: str) -> None:
    stream = Stream()
    final: list[Piece] = []
    for character in text:
        stream.feed(character)
        stream.take_rest()
        assert stream.final[: len(final)] == final
        final = list(stream.final)
    assert stream.final + stream.take_rest() == split(text)


@pytest.mark.parametrize("chunks", [1, 7, 20])
def test_a_long_listing_streams_in_chunks_and_ends_as_one(chunks: int) -> None:
    code = "".join(f"x{at} = '''{at}\n'''\n" for at in range(200))
    text = f"Look:\n\n```python\n{code}```\n\nDone."
    streamed = MarkdownText()
    for at in range(0, len(text), len(text) // chunks):
        streamed.feed(text[at : at + len(text) // chunks])
        drawn = words(streamed.draw(PALETTE, 40))
        assert [line.strip() for line in drawn] == [
            line.strip() for line in words(MarkdownText(streamed.text).draw(PALETTE, 40))
        ]
    streamed.finish(text)
    assert streamed.draw(PALETTE, 40) == MarkdownText(text).draw(PALETTE, 40)


@pytest.mark.parametrize("fence", ["```", "~~~~", "  ```"])
@pytest.mark.parametrize("end", ["", "\n", "CLOSED", "CLOSED\n"])
def test_chunks_of_a_listing_have_all_its_lines(fence: str, end: str) -> None:
    code = [f"line {at}" for at in range(500)]
    source = "\n".join([f"{fence}text", *code]) + end.replace("CLOSED", f"\n{fence}")
    (piece,) = split(source)
    parts = chunk(piece)
    assert len(parts) > 5
    drawn = [
        line.strip()
        for part in parts
        for line in words(MarkdownText(part.source).draw(PALETTE, 40))
    ]
    assert drawn == code
    assert [part.joined for part in parts] == [False] + [True] * (len(parts) - 1)


@pytest.mark.parametrize("mark", ["-", "##", "```", "3.", "|"])
def test_a_line_that_is_only_marks_waits_for_its_words(mark: str) -> None:
    markdown = MarkdownText()
    markdown.feed(f"text\n{mark}")
    assert [line.strip() for line in words(markdown.draw(PALETTE, 40))] == ["text"]
    markdown.feed(" words")
    assert "words" in "".join(words(markdown.draw(PALETTE, 40))) or mark == "```"
    ended = MarkdownText()
    ended.feed(f"text\n\n{mark}")
    ended.finish()
    assert words(ended.draw(PALETTE, 40)) == words(
        MarkdownText(f"text\n\n{mark}").draw(PALETTE, 40)
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("some **bold wo", "some bold wo"),
        ("some **bold ", "some bold"),
        ("some **", "some"),
        ("some **bold** and `co", "some bold and co"),
        ("one `a**b` two", "one a**b two"),
        ("- item **na", "• item na"),
        ("2 ** 3", "2 ** 3"),
        ("2 * 3 and *", "2 * 3 and *"),
    ],
)
def test_marks_that_are_still_open_are_not_seen_while_a_text_streams(text: str, shown: str) -> None:
    markdown = MarkdownText()
    markdown.feed(text)
    assert [line.rstrip() for line in words(markdown.draw(PALETTE, 40))] == [shown]


def test_items_of_a_list_are_counted_on_however_they_come() -> None:
    text = "1. one\n1. two\n\n   more\n1. three\n\nend"
    stream = MarkdownText()
    for line in text.splitlines(keepends=True):
        stream.feed(line)
        stream.draw(PALETTE, 40)
    assert [line.rstrip() for line in words(stream.draw(PALETTE, 40))] == [
        " 1. one", " 2. two", "    more", " 3. three", "", "end",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b>bold</b> List<String>", "a <b>bold</b> List<String>"),
        ("<div>\nblock\n</div>", "<div> block </div>"),
        ("[words](https://a.b/c)", "words (https://a.b/c)"),
        ("<https://a.b/c>", "https://a.b/c"),
        ("![a picture](p.png)", "[image: a picture]"),
        ("see [1]\n\n[1]: https://a.b", "see [1]||[1]: https://a.b"),
        ("&#27;[31mred &#x202e;x", "�[31mred x"),
        ("a\n\n---\n\nb", "a||" + "─" * 40 + "||b"),
        ("> quoted\n> twice", "▎ quoted twice"),
        ("# Title\ntext", "Title||text"),
        ("", ""),
        (" \n\n ", ""),
    ],
)
def test_markdown_is_shown_without_losing_anything(text: str, shown: str) -> None:
    drawn = "|".join(line.rstrip() for line in words(MarkdownText(text).draw(PALETTE, 40)))
    assert drawn == shown


def test_a_table_is_drawn_in_columns_that_fit() -> None:
    text = "| name | size |\n|:--|--:|\n| 漢字 | 1 |\n| a very long cell that is broken | 23 |"
    drawn = words(MarkdownText(text).draw(PALETTE, 24))
    check(MarkdownText(text).draw(PALETTE, 24), 24)
    assert "name" in drawn[0]
    assert "漢字" in "".join(drawn)
    assert "broken" in "".join(drawn)


def test_a_huge_text_is_shown_as_it_is() -> None:
    drawn = words(MarkdownText("**word** \n" * 30_000).draw(PALETTE, 40))
    assert drawn[0].startswith("**word**")
    assert len(drawn) > 30_000


def test_an_edit_is_shown_as_a_difference() -> None:
    change = find_difference("edit_file", {"path": "x", "old": "a\nb\nc", "new": "a\nB\nc\n-d"})
    assert change is not None
    assert change.lines == ((" ", "a"), ("-", "b"), ("+", "B"), (" ", "c"), ("+", "-d"))
    assert (change.added, change.removed) == (2, 1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("shell", {"command": "ls"}), ("edit_file", {"old": 1, "new": 2}), ("write_file", {})],
)
def test_other_calls_are_no_difference(name: str, arguments: dict[str, object]) -> None:
    assert find_difference(name, arguments) is None


def test_a_new_file_is_all_added_and_a_huge_one_is_not_compared() -> None:
    written = find_difference("write_file", {"path": "x", "content": "a\nb\n"})
    assert written is not None
    assert written.lines == (("+", "a"), ("+", "b"))
    huge = compare("x\n" * 3_000, "y\n" * 3_000)
    assert (huge.added, huge.removed) == (3_000, 3_000)


@pytest.mark.parametrize(
    ("line", "needle", "spans"),
    [
        ("Über Straße", "uber", [(0, 4)]),
        ("Straße", "sse", [(4, 6)]),
        ("aaa", "aa", [(0, 2)]),
        ("nothing", "", []),
    ],
)
def test_hits_are_found_as_the_search_compares(
    line: str, needle: str, spans: list[tuple[int, int]]
) -> None:
    assert list(find_spans(line, needle)) == spans


# --- the blocks -----------------------------------------------------------------------------------


@settings(max_examples=pick(30, 150), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 50)), max_size=30))
def test_every_line_of_the_pile_belongs_to_what_was_laid_out_there(
    steps: list[tuple[int, int]],
) -> None:
    blocks, numbers = BlockList(), itertools.count()

    def make() -> Block:
        return list_blocks([say(next(numbers) + 1, "user", "\n".join("abc"))])[0]

    for kind, number in steps:
        known = blocks.list_all()
        match kind:
            case 0 | 1:
                blocks.add(make())
            case 2:
                blocks.put_earlier([make() for _ in range(number % 4)])
            case 3:
                blocks.pull(number % 5 + 1)
            case 4:
                blocks.pull_later(number % 5 + 1)
            case 5 if known:
                blocks.open_at(known[number % len(known)], number % 7 + 1)
            case 6 if known:
                blocks.drop(known[number % len(known)])
        blocks.count_gap(0)
        blocks.settle(PALETTE, 20, verbose=False)
        if kind != 6:
            assert len(blocks.list_all()) >= len(known)
        owners = [spot.block for y in range(blocks.height) if (spot := blocks.find(y)) is not None]
        assert list(dict.fromkeys(owners)) == blocks.blocks
        assert [spot.block for spot in map(blocks.find, range(blocks.height)) if spot] == [
            block for block in blocks.blocks for _ in range(3)
        ]
        seqs = [block.seq for block in blocks.list_all() if block.seq is not None]
        assert len(seqs) == len(set(seqs))
