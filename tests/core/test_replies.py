"""Where replies go, and which were said already."""

from __future__ import annotations

import html
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.replies import (
    REPEAT_MS,
    ReplyTo,
    conversation_of,
    cut_pieces,
    is_said,
    parse_reply_to,
    read_reply_to,
    utf16_size,
)
from clew.core.delivery import Outbound, OutboundStatus
from clew.errors import InvalidInput

AGAIN = ReplyTo(channel="telegram", key="k", is_retry=True)


def row(status: OutboundStatus = "sent", **fields: Any) -> Outbound:
    given: dict[str, Any] = {
        "id": "a", "session_id": "s", "key": "k", "channel": "telegram", "address": {},
        "content": "hi", "turn_id": None, "seq": None, "status": status, "attempts": 1, "due_at": 0,
        "claimant": None, "claimed_at": None, "receipt": None, "error": None, "created_at": 1_000,
        "updated_at": 1_000,
    }  # fmt: skip
    return Outbound(**(given | fields))


@pytest.mark.parametrize(
    ("status", "said"),
    [("pending", True), ("sending", True), ("sent", True), ("uncertain", True), ("failed", False),
     ("withheld", False)],
)  # fmt: skip
def test_a_retry_does_not_repeat_what_has_gone_out_or_will(
    status: OutboundStatus, said: bool
) -> None:
    assert is_said(AGAIN, "hi", [row(status)], 2_000) is said


def test_after_thirty_seconds_it_is_news_again() -> None:
    assert is_said(AGAIN, "hi", [row()], 1_000 + REPEAT_MS - 1)
    assert not is_said(AGAIN, "hi", [row()], 1_000 + REPEAT_MS)


@pytest.mark.parametrize("other", [{"key": "x"}, {"content": "ho"}, {"channel": "slack"}])
def test_other_words_and_other_places_are_no_repetition(other: dict[str, Any]) -> None:
    assert not is_said(AGAIN, "hi", [row(**other)], 2_000)


def test_only_a_retry_can_be_a_repetition() -> None:
    first = msgspec.structs.replace(AGAIN, is_retry=False)
    assert not is_said(first, "hi", [row()], 2_000)


@pytest.mark.parametrize(
    ("text", "kind", "id", "thread"),
    [
        ("telegram:123", "dm", "123", None),
        ("Telegram:dm:123", "dm", "123", None),
        ("telegram:group:-100:topic:7", "group", "-100", "7"),
        ("slack:channel:c01:thread:17.2", "channel", "c01", "17.2"),
        ("email:me@example.org", "dm", "me@example.org", None),
        ("webhook:deploys", "dm", "deploys", None),
    ],
)
def test_a_place_is_read_as_people_write_it(
    text: str, kind: str, id: str, thread: str | None  # noqa: A002  # as it is called
) -> None:  # fmt: skip
    to = parse_reply_to(text)

    assert to.channel == text.partition(":")[0].lower()
    assert to.address["peer"] == {"kind": kind, "id": id}
    assert to.address.get("thread") == thread


@pytest.mark.parametrize(
    ("key", "address", "told"),
    [
        ("agent:main:telegram:group:-1", {}, ("agent:main:telegram:group:-1", "group")),
        ("telegram:-1", {"peer": {"kind": "group", "id": "-1"}}, ("agent:main:main", "group")),
        ("telegram:7", {}, ("agent:main:main", "direct")),
        ("telegram:7", {"peer": "nonsense"}, ("agent:main:main", "direct")),
    ],
)
def test_the_rules_of_sending_are_told_what_kind_of_place_it_is(
    key: str, address: dict[str, Any], told: tuple[str, str]
) -> None:
    place = conversation_of(
        ReplyTo(channel="telegram", key=key, address=address), "agent:main:main"
    )

    assert (place.key, place.chat_type) == told
    assert place.channel == "telegram"


@pytest.mark.parametrize(
    "text", ["", "telegram", "telegram:", ":1", "cron:x", "api:x", "agent:main:main"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_reply_to(text)


def test_what_is_noted_with_a_turn_is_read_back_and_nonsense_is_no_place() -> None:
    to = ReplyTo(channel="telegram", key="k", address={"peer": {"kind": "dm", "id": "7"}})

    assert read_reply_to(msgspec.to_builtins(to)) == to
    assert [read_reply_to(each) for each in (None, "x", {}, {"channel": 1})] == [None] * 4


# --- pieces as they are sent ----------------------------------------------------------------------

MARKDOWN = st.lists(
    st.sampled_from(
        (
            "```\n",
            "```python\n",
            "~~~\n",
            "````\n",
            "a & b < c",
            "word ",
            "\n",
            "\n\n",
            "🧵",
            "`x`",
            "    ",
            "line of code\n",
            "é",
            "x" * 30,
            "> quote\n",
            "```inline``` ",
        )
    ),
    max_size=60,
).map("".join)


@given(MARKDOWN, st.integers(24, 120))
def test_pieces_lose_nothing_and_fit_as_they_are_sent(text: str, limit: int) -> None:
    pieces = [*cut_pieces(text, limit, size=utf16_size, render=html.escape)]

    assert "".join(piece.source for piece in pieces) == text
    for piece in pieces:
        assert utf16_size(piece.sent) <= limit
        assert utf16_size(piece.source) <= limit
        assert piece.source


@given(MARKDOWN, st.integers(60, 200))
def test_every_piece_has_its_code_blocks_closed(text: str, limit: int) -> None:
    for piece in cut_pieces(text, limit):
        opened = ""
        for line in piece.sent.splitlines():
            mark = re.match(r" {0,3}(`{3,}|~{3,})([^`]*)$", line)
            if mark and not opened:
                opened = mark[1]
            elif mark and mark[1][0] == opened[0] and len(mark[1]) >= len(opened):
                opened = "" if not mark[2].strip() else opened
        assert not opened


def test_a_cut_code_block_is_opened_again_in_its_language() -> None:
    code = "".join(f"line {number}\n" for number in range(12))
    pieces = [*cut_pieces(f"Look:\n\n```python\n{code}```\nDone.", 60)]

    assert len(pieces) > 2
    assert all(piece.sent.count("```") % 2 == 0 for piece in pieces)
    assert sum(piece.sent.startswith("```python\n") for piece in pieces) >= 2
    assert pieces[-1].sent.endswith("Done.")
