"""Who writes on a channel: the owner, or a person of another name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.people import is_owner, person_of


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
