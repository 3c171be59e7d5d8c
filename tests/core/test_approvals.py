"""What a question on a channel says, and which message answers it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.approvals import (
    ANSWERS,
    DETAIL,
    SCOPES,
    Answer,
    Asked,
    asked_id,
    find_question,
    order_of,
    question_text,
    read_answer,
    read_wish,
)
from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.replies import Attached, ReplyTo
from clew.core.channels.routing import Arrival, Peer
from clew.core.commands import COMMANDS, parse
from clew.core.delivery import Outbound, OutboundStatus
from clew.core.session import OWNER

MINUTES = 600_000
HERE = ReplyTo(channel="telegram", key="telegram:1")
ID = "0123456789abcdef"


def said(text: str, **fields: Any) -> Incoming:
    given: dict[str, Any] = {
        "arrival": Arrival(channel="telegram", peer=Peer("dm", "1")),
        "sender": Sender("1"),
        "text": text,
        "reply_to": HERE,
    }
    return Incoming(**(given | fields))


def put(approval_id: str, status: OutboundStatus = "sent", **fields: Any) -> Asked:
    row = Outbound(
        id=asked_id(approval_id), session_id="s", key=HERE.key, channel=HERE.channel,
        address={}, content="?", turn_id=None, seq=None, status=status,
        attempts=1, due_at=0, claimant=None, claimed_at=None, receipt=None, error=None,
        created_at=0, updated_at=0,
    )  # fmt: skip
    return Asked(approval_id, msgspec.structs.replace(row, **fields))


# --- the answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", Answer("yes")),
        ("Y", Answer("yes")),
        ("  YES!\n", Answer("yes")),
        ("no.", Answer("no")),
        ("N", Answer("no")),
        ("Session", Answer("yes", "session")),
        ("always.", Answer("yes", "always")),
        ("@clewbot yes", Answer("yes")),
        ("@clewbot, No!", Answer("no")),
        ("<@clewbot> always", Answer("yes", "always")),
    ],
)
def test_a_word_alone_is_an_answer(text: str, answer: Answer) -> None:
    assert read_answer(said(text, mention="clewbot"), OWNER) == answer


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "!", "yes please", "yes, no", "yes..", "yes?!", "no way", "yep", "ok", "once", "s",
        "a", "yes\nno", "\u201cyes\u201d", "y e s", "@other yes", "yes @clewbot", "/yes", "noo",
        "ＹＥＳ", "ye\u200bs", "yeſ", "нo",
    ],
)  # fmt: skip
def test_whatever_else_is_said_is_none(text: str) -> None:
    assert read_answer(said(text, mention="clewbot"), OWNER) is None


PIECES = [
    "yes",
    "Y",
    "no",
    "N",
    "session",
    "ALWAYS",
    "@bot",
    "<@bot>",
    ",",
    " ",
    "\n",
    ".",
    "!",
    "x",
]
WORD = re.compile(r"\s*(?:(?:<@bot>|@bot(?!\w))[,:]?\s*)?([a-z]+)[.!]?\s*", re.IGNORECASE)


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text())
def test_of_all_texts_only_the_words_count(text: str) -> None:
    match = WORD.fullmatch(text)
    word = "" if match is None else match[1].lower()
    assert read_answer(said(text, mention="bot"), OWNER) == ANSWERS.get(word)


@given(
    st.sampled_from([*ANSWERS, *(each.upper() + "!" for each in ANSWERS)]),
    st.text().filter(lambda person: person != OWNER),
)
def test_nobody_but_the_owner_answers(text: str, person: str) -> None:
    assert read_answer(said(text), OWNER) is not None
    assert read_answer(said(text), person) is None


@pytest.mark.parametrize(
    "fields", [{"from_person": False}, {"attachments": (Attached("image/png", b"x"),)}]
)
def test_a_program_and_a_picture_say_no_yes(fields: dict[str, Any]) -> None:
    assert read_answer(said("yes", **fields), OWNER) is None


# --- its question ---------------------------------------------------------------------------------


def test_it_is_for_the_oldest_question_that_was_put_there() -> None:
    elsewhere = put("a", channel="slack")
    assert find_question(said("yes"), [elsewhere, put("b"), put("c")]) == "b"


@pytest.mark.parametrize(
    "asked",
    [
        Asked("a"),
        put("a", "pending"),
        put("a", "withheld"),
        put("a", "failed"),
        put("a", id="b-asked"),
        put("a", channel="slack"),
        put("a", key="telegram:2"),
        put("a", account="work"),
    ],
)
def test_what_nobody_can_have_read_there_is_not_answered(asked: Asked) -> None:
    assert find_question(said("yes"), [asked]) is None


@pytest.mark.parametrize("status", ["sending", "sent", "uncertain"])
def test_what_may_have_been_read_is(status: OutboundStatus) -> None:
    assert find_question(said("yes"), [put("a", status)]) == "a"
    assert find_question(said("yes", reply_to=None), [put("a", status)]) is None


# --- as a command ---------------------------------------------------------------------------------


@given(st.sampled_from([*ANSWERS.values()]), st.text("0123456789abcdef", min_size=16, max_size=16))
def test_the_command_of_an_answer_says_the_same(answer: Answer, approval_id: str) -> None:
    name, rest = parse(order_of(answer, approval_id), is_path=lambda _: False) or ("", "")
    assert name in COMMANDS
    assert name == ("deny" if answer.decision == "no" else "approve")
    assert read_wish(rest) == (answer.scope, approval_id)


@given(st.text())
def test_any_text_behind_a_command_is_a_wish_or_none(rest: str) -> None:
    wish = read_wish(rest)
    if wish is not None:
        assert wish[0] in SCOPES
        assert len(rest.split()) <= 2


@pytest.mark.parametrize(
    ("rest", "wish"),
    [
        ("", ("once", None)),
        ("ALWAYS", ("always", None)),
        (f"session {ID}", ("session", ID)),
        (ID, ("once", ID)),
        ("none", ("once", "none")),
        ("sometimes", None),
        ("once more", None),
        (f"{ID} once", None),
        (f"once {ID} {ID}", None),
    ],
)
def test_what_may_follow_approve(rest: str, wish: tuple[str, str | None] | None) -> None:
    assert read_wish(rest) == wish


# --- the question ---------------------------------------------------------------------------------


def test_a_question_says_what_would_be_done_and_how_to_answer() -> None:
    request = {"summary": "Run: make test", "detail": "make test", "rule": "shell:make test"}
    assert question_text("shell", request, wait_ms=MINUTES) == (
        "May I use shell? Run: make test\n\n"
        "Answer yes, no, session or always. The last two allow shell:make test from now on. "
        "After 10 minutes it is a no."
    )


def test_where_no_rule_would_allow_it_nothing_but_yes_and_no_is_offered() -> None:
    request = {"summary": "Carry out this plan?", "detail": "1. Look\n2. Act", "plan": True}
    assert question_text("propose_plan", request, wait_ms=MINUTES) == (
        "Carry out this plan?\n\n1. Look\n2. Act\n\nAnswer yes or no. After 10 minutes it is a no."
    )


def test_lines_are_shown_as_lines() -> None:
    command = "echo a\nrm b"
    text = question_text("shell", {"summary": f"Run: {command}", "detail": command}, wait_ms=1)
    assert "\n\necho a\nrm b\n\n" in text


@pytest.mark.parametrize("command", ["x" * 100_000, "echo y\n" * 10_000, f"echo {'y ' * 1000}; rm"])
def test_a_long_one_is_cut_and_says_so(command: str) -> None:
    request = {"summary": f"Run: {command}"[:500], "detail": command, "rule": command}
    text = question_text("shell", request, wait_ms=MINUTES)
    assert "this is cut" in text
    assert len(text) < 2_500


@given(
    st.text(),
    st.dictionaries(
        st.sampled_from(["summary", "detail", "rule", "plan"]),
        st.text() | st.none() | st.integers() | st.lists(st.text()),
    ),
    st.integers(),
)
def test_every_question_has_an_end(name: str, request: dict[str, Any], wait_ms: int) -> None:
    text = question_text(name, request, wait_ms=wait_ms)
    assert "Answer yes" in text
    assert "\x1b" not in text
    assert len(text) < DETAIL + 1_500
