"""Who writes on a channel, what they may, and which messages are commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.orders import STOP_WORDS, read_order
from clew.core.people import GUEST_MAY, is_owner, may_command, person_of


@pytest.mark.parametrize(
    ("owners", "channel", "sender", "is_so"),
    [
        (["telegram:123"], "telegram", "123", True),
        (["Telegram: 123 "], "TELEGRAM", " 123", True),
        (["telegram:123"], "telegram", "1234", False),
        (["telegram:123"], "discord", "123", False),
        (["123"], "telegram", "123", False),
        (["telegram:"], "telegram", "", False),
        ([":"], "", "", False),
        ([], "telegram", "123", False),
        (["email:Ada@Example.org"], "email", "ada@example.ORG", True),
        (["matrix:@Ada:example.org"], "matrix", "@Ada:example.org", True),
        (["matrix:@Ada:example.org"], "matrix", "@ada:example.org", False),
    ],
)
def test_only_who_is_listed_for_that_channel_is_the_owner(
    owners: list[str], channel: str, sender: str, is_so: bool
) -> None:
    assert is_owner(owners, channel, sender) is is_so


@given(st.text(), st.text(), st.lists(st.text()))
def test_nobody_becomes_the_owner_by_another_channel(
    channel: str, sender: str, owners: list[str]
) -> None:
    others = [each for each in owners if not each.strip().lower().startswith("telegram")]
    assert not is_owner(others, "telegram", sender)
    assert person_of(channel, sender, owner=False) != "owner"


@pytest.mark.parametrize("name", ["new", "status", "send", "link", "memory", "model", "nonsense"])
@pytest.mark.parametrize("is_direct", [True, False])
def test_the_owner_may_all_a_stranger_nothing_and_a_guest_a_little_at_home(
    name: str, is_direct: bool
) -> None:
    assert may_command("owner", name, is_direct=is_direct)
    assert not may_command("stranger", name, is_direct=is_direct)
    assert may_command("guest", name, is_direct=is_direct) is (is_direct and name in GUEST_MAY)


@pytest.mark.parametrize(
    ("text", "mention", "line"),
    [
        ("/status", None, "/status"),
        ("  /send off \n", None, "/send off"),
        ("@clew /status", "clew", "/status"),
        ("<@9> /status", "9", "/status"),
        ("@clew, stop", "clew", "/stop"),
        ("/status@clew now", "@Clew", "/status now"),
        ("/status@other", "clew", None),
        ("/status@clew", None, None),
        ("say /status", None, None),
        ("stop!", None, None),
        ("stop it", None, None),
        ("", None, None),
        *((word.upper(), None, "/stop") for word in STOP_WORDS),
    ],
)
def test_a_command_is_the_whole_message(text: str, mention: str | None, line: str | None) -> None:
    assert read_order(text, mention) == line


@given(st.text(), st.none() | st.text())
def test_whatever_is_said_an_order_is_a_line_with_a_slash_or_none(
    text: str, mention: str | None
) -> None:
    line = read_order(text, mention)
    assert line is None or line.startswith("/")
    if not text.strip():
        assert line is None
