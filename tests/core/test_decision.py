"""What was decided about a message, as its inbox row keeps it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.replies import ReplyTo
from clew.core.decision import Decision, encode_decision, follows_key, read_decision
from clew.core.delivery import Inbound
from clew.core.session import NewSession
from clew.core.tokens import SCOPES, Scopes, make_scopes

REPLY_TO = ReplyTo(channel="telegram", key="telegram:7", address={"chat": 7}, person="telegram:7")
OPENS = NewSession(key="agent:main:main", id="s2", reset_reason="daily", previous_id="s1")


def row(payload: dict[str, Any], *, key: str = "agent:main:main") -> Inbound:
    return Inbound(
        "i1", "telegram", "default", "1", key, "s1", "owner", payload, "queued", None, None, None, 0
    )


texts = st.text()
words = st.dictionaries(texts, texts, max_size=2)
replies = st.builds(
    ReplyTo, channel=texts, key=texts, account=texts, address=words, person=st.none() | texts,
    is_retry=st.booleans(), attended=st.booleans(),
)  # fmt: skip
scopes = st.lists(st.sampled_from(SCOPES), min_size=1).map(make_scopes)
sessions = st.builds(NewSession, key=texts, id=st.none() | texts, reset_reason=st.none() | texts)
decisions = st.builds(
    Decision, text=texts, parts=st.lists(words, max_size=2).map(tuple), pinned=st.booleans(),
    opens=st.none() | sessions, may_resume=st.booleans(), command=st.none() | texts,
    own_key=texts, from_person=st.booleans(), attended=st.booleans(),
    reply_to=st.none() | replies, platform=st.none() | texts, scopes=st.none() | scopes,
)  # fmt: skip


@given(decisions)
def test_what_is_encoded_is_read_again(decision: Decision) -> None:
    payload = json.loads(json.dumps(encode_decision(decision)))
    assert read_decision(row(payload)) == decision
    assert payload["text"] == decision.text


@pytest.mark.parametrize(
    ("channel", "told", "person", "expected"),
    [
        ("api", ["write", "approve"], "owner", ("write", "approve")),
        ("api", ["chat", "from the future"], "owner", ("chat",)),
        ("api", ["from the future"], "owner", ()),
        ("api", "admin", "owner", ("chat",)),
        ("api", None, "owner", ("chat",)),
        ("cli", None, "owner", ("admin",)),
        ("telegram", None, "owner", ("admin",)),
        ("telegram", None, "telegram:7", ("chat",)),
    ],
)
def test_a_caller_whose_scopes_are_not_known_may_only_talk(
    channel: str, told: object, person: str, expected: Scopes
) -> None:
    payload = {"text": "hello"} | ({} if told is None else {"scopes": told})
    kept = msgspec.structs.replace(row(payload), channel=channel)
    assert read_decision(kept).find_scopes(person) == expected


def test_what_is_as_usual_is_left_out() -> None:
    assert encode_decision(Decision(text="hello")) == {"text": "hello"}


BEFORE: list[tuple[dict[str, Any], Decision]] = [
    ({"text": "hello"}, Decision(text="hello")),
    ({}, Decision()),
    (
        {"text": "see", "parts": [{"type": "image", "blob": "b1", "media_type": "image/png"}]},
        Decision(
            text="see", parts=({"type": "image", "blob": "b1", "media_type": "image/png"},)
        ),
    ),
    (
        {
            "text": "good morning",
            "reply_to": {
                "channel": "telegram", "key": "telegram:7", "address": {"chat": 7},
                "person": "telegram:7",
            },
            "opens": {
                "key": "agent:main:main", "id": "s2", "reset_reason": "daily", "previous_id": "s1",
            },
            "pinned": True,
            "may_resume": True,
        },
        Decision(
            text="good morning", reply_to=REPLY_TO, opens=OPENS, pinned=True, may_resume=True
        ),
    ),
    (
        {"text": "/title Kitchen", "command": "/title Kitchen", "own_key": "telegram:7"},
        Decision(text="/title Kitchen", command="/title Kitchen", own_key="telegram:7"),
    ),
    (
        {"text": "news?", "from_person": False, "attended": False},
        Decision(text="news?", from_person=False, attended=False),
    ),
]  # fmt: skip
"""Payloads as the version before this module wrote them, and what they say."""


@pytest.mark.parametrize(("payload", "decision"), BEFORE)
def test_a_row_of_the_version_before_is_read(payload: dict[str, Any], decision: Decision) -> None:
    assert read_decision(row(payload)) == decision


def test_what_is_not_known_is_ignored() -> None:
    odd = {"text": "hi", "colour": "red", "reply_to": {"nowhere": 1}, "opens": None}
    assert read_decision(row(odd)) == Decision(text="hi")


def test_a_session_that_can_not_be_understood_is_no_guess() -> None:
    with pytest.raises(msgspec.ValidationError):
        read_decision(row({"text": "hi", "opens": {"colour": "red"}}))


def test_a_message_follows_its_key_if_the_session_is_its_first() -> None:
    first = encode_decision(Decision(opens=NewSession(key="agent:main:main", id="s2")))
    assert follows_key(row(first), "agent:main:main")
    assert not follows_key(row(first, key="telegram:7"), "agent:main:main")
    assert not follows_key(row(encode_decision(Decision(opens=OPENS))), "agent:main:main")
    assert not follows_key(row({"text": "hi"}), "agent:main:main")
