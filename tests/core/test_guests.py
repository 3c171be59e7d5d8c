"""Who may talk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.people import (
    LETTERS,
    Admission,
    Pairing,
    PairingStatus,
    admit,
    read_code,
    read_person,
)
from clew.core.channels.routing import Arrival, Peer

IDS = st.text("abAB01-_ :*", max_size=6)
GROUP = Peer("group", "-100")


def message(by: str = "7", channel: str = "telegram", peer: Peer | None = None) -> Incoming:
    arrival = Arrival(channel=channel, peer=peer or Peer("dm", by), is_owner=False)
    return Incoming(arrival=arrival, sender=Sender(by), text="hi")


def known(status: PairingStatus) -> Pairing:
    return Pairing("telegram:7", "telegram", status, None, None, 0, None, 0, 1, None, None)


@pytest.mark.parametrize(
    ("guests", "incoming", "expected"),
    [
        ((), message(), "asks"),
        ((), message(peer=GROUP), "ignored"),
        ((), message(by=" "), "ignored"),
        (("telegram:7",), message(), "known"),
        ((" Telegram: 7 ",), message(), "known"),
        (("telegram:7",), message(peer=GROUP), "known"),
        (("telegram:8",), message(), "asks"),
        (("slack:7",), message(), "asks"),
        (("7",), message(), "asks"),
        (("telegram:*",), message(), "open"),
        (("slack:*",), message(), "asks"),
        (("*",), message(), "open"),
        (("*",), message(peer=GROUP), "open"),
        (("*", "telegram:7"), message(), "known"),
        (("telegram:-100",), message(peer=GROUP), "open"),
        (("telegram:-100",), message(), "asks"),
        (("telegram:-200",), message(peer=GROUP), "ignored"),
        (("slack:u7",), message("U7", "slack"), "known"),
        (("matrix:@ann",), message("@Ann", "matrix"), "asks"),
        (("telegram:*",), message(by="*"), "open"),
        (("telegram:",), message(by=" "), "ignored"),
    ],
)
def test_who_may_talk(guests: tuple[str, ...], incoming: Incoming, expected: Admission) -> None:
    assert admit(guests, incoming, None) == expected


def test_a_pairing_counts_as_a_name_does() -> None:
    assert admit((), message(), known("paired")) == "known"
    assert admit((), message(peer=GROUP), known("paired")) == "known"
    assert admit((), message(), known("waiting")) == "asks"


@given(st.lists(st.one_of(IDS, st.just("*"), st.just("telegram:*"), st.just("telegram:7"))))
def test_who_is_refused_is_out_whatever_the_configuration_says(guests: list[str]) -> None:
    for incoming in (message(), message(peer=GROUP)):
        assert admit(guests, incoming, known("refused")) == "ignored"


@given(st.lists(st.tuples(st.sampled_from(["telegram", "slack"]), IDS)), IDS)
def test_nobody_is_known_whom_no_entry_names(entries: list[tuple[str, str]], sender: str) -> None:
    guests = [f"{channel}:{who}" for channel, who in entries]
    found = admit(guests, message(sender), None)
    if found == "known":
        assert ("telegram", sender.strip().lower()) in [
            (channel, who.strip().lower()) for channel, who in entries
        ]
    assert found != "ignored" or not sender.strip()


@given(st.text(LETTERS, min_size=8, max_size=8), st.integers(0, 8))
def test_a_code_is_read_as_people_type_it(code: str, at: int) -> None:
    for typed in (code, code.lower(), f" {code[:at]}-{code[at:]} ", f"{code[:at]} {code[at:]}"):
        assert read_code(typed) == code


@given(st.text())
def test_what_is_no_code_is_none(text: str) -> None:
    code = read_code(text)
    assert code is None or (len(code) == 8 and set(code) <= set(LETTERS))
    assert not (read_code(text) and read_person(text)), "a word is one or the other"


@pytest.mark.parametrize(
    ("typed", "person"),
    [
        ("telegram:456", "telegram:456"),
        (" Slack:U7 ", "slack:u7"),
        ("matrix:@Ann:home", "matrix:@Ann:home"),
        ("person:alice", "person:alice"),
        ("telegram:", None),
        (":456", None),
        ("456", None),
        ("", None),
    ],
)
def test_a_person_is_a_channel_and_an_id(typed: str, person: Any) -> None:
    assert read_person(typed) == person
