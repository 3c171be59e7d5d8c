"""Whose conversation a key is."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.people import is_owner, person_of
from clew.core.channels.routing import Arrival, DmScope, Peer, RoutingRules, route
from clew.core.channels.session_choice import ReceptionRules, find_keyholder
from clew.core.session import OWNER

LINKS = {"alice": ("telegram:7", "discord:8"), "Me": ("telegram:123", "discord:9")}
OWNERS = ("telegram:123", "matrix:@Me:home")


def rules(**routing: Any) -> ReceptionRules:
    given = {"identity_links": LINKS} | routing
    return ReceptionRules(owners=OWNERS, routing=RoutingRules(**given), zone=UTC)


@pytest.mark.parametrize(
    ("key", "whose"),
    [
        ("agent:main:telegram:dm:456", "telegram:456"),
        ("agent:home:telegram:biz:dm:456", "telegram:456"),
        ("agent:main:slack:dm:u1:thread:5", "slack:u1"),
        ("agent:main:telegram:dm:123", OWNER),
        ("agent:main:matrix:dm:@Me:home", OWNER),
        ("agent:main:matrix:dm:@me:home", "matrix:@me:home"),
        ("agent:main:telegram:dm:7", "person:alice"),
        ("agent:main:dm:alice", "person:alice"),
        ("agent:main:dm:me", OWNER),
        ("telegram:456", "telegram:456"),
        ("telegram:123", OWNER),
        ("email:a@b.c", "email:a@b.c"),
        # Nobody's own, or nobody can tell.
        ("telegram:-100", None),
        ("telegram:456:topic:7", None),
        ("slack:C01", None),
        ("discord:99", None),
        ("agent:main:main", None),
        ("agent:main:telegram:group:-100", None),
        ("agent:main:telegram:group:-100:topic:7", None),
        ("agent:main:cron:backup", None),
        ("agent:main:dm:456", None),
        ("cli:project", None),
        ("web:1", None),
        ("sdk", None),
        ("", None),
    ],
)
def test_a_key_of_one_person_is_that_persons(key: str, whose: str | None) -> None:
    assert find_keyholder(rules(), key) == whose


@pytest.mark.parametrize(("peer", "whose"), [("456", "unknown:456"), ("123", OWNER)])
def test_where_guests_have_keys_without_a_channel_they_are_not_the_owners(
    peer: str, whose: str
) -> None:
    assert find_keyholder(rules(dm_scope="per-peer"), f"agent:main:dm:{peer}") == whose
    assert find_keyholder(rules(guest_dm_scope="per-peer"), f"agent:main:dm:{peer}") == whose


WORDS = st.sampled_from(["telegram", "slack", "matrix", "discord", "X y"])
IDS = st.sampled_from(["7", "8", "123", "456", "@Me:home", "alice", "me"]) | st.text(min_size=1)
SCOPES: st.SearchStrategy[DmScope] = st.sampled_from(
    ["per-channel-peer", "per-account-channel-peer"]
)


@given(WORDS, IDS, SCOPES)
def test_the_key_that_a_message_gets_is_its_senders(
    channel: str, peer: str, scope: DmScope
) -> None:
    """Whoever is first, the owner or the guest: the session is the same person's."""
    given = rules(dm_scope=scope)
    owner = is_owner(OWNERS, channel, peer)
    found = route(given.routing, Arrival(channel=channel, peer=Peer("dm", peer), is_owner=owner))
    person = person_of(channel, peer, owner=owner, linked=found.linked)
    holder = find_keyholder(given, found.key)
    if found.linked == "me":
        assert holder == OWNER  # one of the ids of that name is the owner's
    else:
        assert holder == person
