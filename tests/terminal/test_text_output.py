"""What reaches the screen: clean, and on a line of its own."""

from __future__ import annotations

import io
import re

from hypothesis import given
from hypothesis import strategies as st

from clew.core.text import strip_controls
from clew.terminal.plain_output import ControlFilter, TextOutput

SEQUENCES = [
    "\x1b[31m", "\x1b[2J", "\x1b]52;c;aGVsbG8=\x07", "\x1b]0;title\x1b\\", "\x9b31m",
    "\x1bPq\x1b\\", "\x1bc", "\x1b(B", "\x90x\x9c", "\u202e", "\u200b", "\x07", "\x08", "\r",
    "\r\n", "\0",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from([*SEQUENCES, "a", "b ", "京", "👩\u200d💻", "\n"]), max_size=12)


def clean(pieces: list[str]) -> str:
    control_filter = ControlFilter()
    return "".join(control_filter.feed(piece) for piece in pieces) + control_filter.end()


@given(TEXTS, st.integers(1, 9))
def test_a_stream_is_as_clean_as_the_whole_text(parts: list[str], size: int) -> None:
    text = "".join(parts)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert clean(pieces) == strip_controls(text)


@given(st.lists(st.text(max_size=6), max_size=20))
def test_nothing_that_drives_a_terminal_comes_through(pieces: list[str]) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", clean(pieces))


def test_an_endless_sequence_is_not_waited_for_for_ever() -> None:
    control_filter = ControlFilter()
    shown = "".join(control_filter.feed("x" * 100) for _ in range(3)) + control_filter.feed(
        "\x1b]52;c;"
    )
    for _ in range(100):
        shown += control_filter.feed("A" * 100)
    assert "\x1b" not in shown + control_filter.end()
    assert len(shown) > 300  # it went on before the end


def test_a_line_begins_at_the_beginning_and_is_clean() -> None:
    stream = io.StringIO()
    output = TextOutput(lambda text, style: f"<{style}>{text}", stream)
    output.write("half")
    output.line("a \x1b[31mline", "dim")
    output.fresh()
    output.flow("streams ")
    output.flow("on")
    output.end_flow()
    output.passing("never seen in a file")
    output.line()
    assert stream.getvalue() == "half\n<dim>a line\nstreams on\n\n"
