"""Lines that are typed or piped in."""

from __future__ import annotations

import asyncio
import os
import select

from clew.terminal.lines import Lines
from tests.patience import PATIENCE


async def read_all(data: bytes) -> list[str]:
    """The messages of a pipe that has this in it."""
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        lines = Lines(reader)
        found = []
        async with asyncio.timeout(PATIENCE):
            while (text := await lines.get_message()) is not None:
                found.append(text)
            assert await lines.get() is None
        return found
    finally:
        os.close(reader)


async def test_each_line_of_a_pipe_is_a_message() -> None:
    assert await read_all(b"one\ntwo\r\n\nlast") == ["one", "two", "", "last"]


async def test_a_backslash_goes_on_with_the_next_line() -> None:
    assert await read_all(b"one\\\ntwo\\\nthree\nfour\\") == ["one\ntwo\nthree", "four"]


async def test_bytes_that_are_no_text_are_kept() -> None:
    (line,) = await read_all(b"a\xffb\n")
    assert line.encode("utf-8", "surrogateescape") == b"a\xffb"


async def test_a_pipe_that_is_empty_is_at_its_end() -> None:
    assert await read_all(b"") == []


async def test_lines_that_come_together_in_a_terminal_are_one_message() -> None:
    master, slave = os.openpty()
    try:
        lines = Lines(slave)
        heard: list[int] = []
        lines.heard = lambda: heard.append(1)
        assert lines.is_terminal
        os.write(master, b"one\ntwo\n/help\nthree\n")
        async with asyncio.timeout(PATIENCE):
            assert await lines.get_message() == "one\ntwo"
            assert await lines.get_message() == "/help"
            assert await lines.get_message() == "three"
        assert len(heard) == 4
    finally:
        os.write(master, b"\x04")
        os.close(slave)
        os.close(master)


async def test_what_was_entered_before_a_mark_has_come_before_it() -> None:
    """However late the thread that reads is."""
    master, slave = os.openpty()
    try:
        lines = Lines(slave)
        lines.start()
        for number in range(200):
            os.write(master, b"%d\n" % number)
            await asyncio.to_thread(select.select, [master], [], [], PATIENCE)  # its echo
            os.read(master, 1_000)
            mark = lines.mark()
            async with asyncio.timeout(PATIENCE):
                assert await lines.get() == str(number)
            assert lines.came_at < mark
        mark = lines.mark()
        os.write(master, b"later\n")
        async with asyncio.timeout(PATIENCE):
            assert await lines.get() == "later"
        assert lines.came_at >= mark
    finally:
        os.write(master, b"\x04")
        os.close(master)
        os.close(slave)
