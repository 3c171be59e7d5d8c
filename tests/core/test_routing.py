from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from clew.core.channels.routing import (
    AgentEntry,
    Arrival,
    Binding,
    BindingMatch,
    Peer,
    RoutingRules,
    parse_peer,
    route,
)
from clew.core.keys import (
    ChannelKey,
    complete_key,
    format_key,
    normalise_id,
    normalise_word,
    parse_key,
)
from clew.errors import InvalidInput


def arrive(channel: str = "telegram", peer: str | None = "dm:1", **more: object) -> Arrival:
    return Arrival(channel=channel, peer=parse_peer(peer) if peer else None, **more)  # type: ignore[arg-type]


def bind(agent: str, **match: str) -> Binding:
    return Binding(agent, BindingMatch(**({"channel": "telegram"} | match)))


# --- keys -------------------------------------------------------------------------------------

KEYS = [
    ("main", arrive(), "agent:main:main"),
    ("per-peer", arrive(), "agent:main:dm:1"),
    ("per-channel-peer", arrive(), "agent:main:telegram:dm:1"),
    ("per-account-channel-peer", arrive(account="Biz"), "agent:main:telegram:biz:dm:1"),
    ("main", arrive(peer="group:-100"), "agent:main:telegram:group:-100"),
    ("main", arrive("slack", "channel:C1"), "agent:main:slack:channel:c1"),
    (
        "main",
        arrive(peer="group:-100", thread="7", is_forum=True),
        "agent:main:telegram:group:-100:topic:7",
    ),
    ("main", arrive(peer="group:-100", is_forum=True), "agent:main:telegram:group:-100:topic:1"),
    ("main", arrive(peer="group:-100", thread="7"), "agent:main:telegram:group:-100"),
    (
        "main",
        arrive("slack", "channel:C1", thread="17.2"),
        "agent:main:slack:channel:c1:thread:17.2",
    ),
    ("main", arrive("slack", "dm:U1", thread="17.2"), "agent:main:main:thread:17.2"),
    ("main", arrive("discord", "channel:5", thread="99"), "agent:main:discord:channel:99"),
    ("main", arrive("discord", "channel:99", thread="99"), "agent:main:discord:channel:99"),
    ("per-peer", arrive("", "dm: "), "agent:main:dm:unknown"),
    ("per-channel-peer", arrive("", "dm:"), "agent:main:unknown:dm:unknown"),
    ("per-channel-peer", arrive("matrix", "dm:@Ann:x.org"), "agent:main:matrix:dm:@Ann:x.org"),
    ("per-channel-peer", arrive("email", "dm:Ann@X.org "), "agent:main:email:dm:ann@x.org"),
    ("main", arrive(peer=None), "agent:main:main"),
    # A guest is never put into the owner's main session.
    ("main", arrive(is_owner=False), "agent:main:telegram:dm:1"),
    ("per-peer", arrive(is_owner=False), "agent:main:dm:1"),
]


@pytest.mark.parametrize(("scope", "arrival", "key"), KEYS)
def test_a_message_gets_the_key_of_its_conversation(scope: str, arrival: Arrival, key: str) -> None:
    assert route(RoutingRules(dm_scope=scope), arrival).key == key  # type: ignore[arg-type]


def test_the_main_key_is_the_configured_one() -> None:
    assert route(RoutingRules(main_key=" Home "), arrive()).key == "agent:main:home"
    assert route(RoutingRules(main_key="  "), arrive()).key == "agent:main:main"


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("main", "agent:main:main"),
        ("per-peer", "agent:main:dm:1"),
        ("per-channel-peer", "agent:main:telegram:dm:1"),
        ("per-account-channel-peer", "agent:main:telegram:default:dm:1"),
    ],
)
def test_a_guest_goes_where_the_configuration_says(scope: str, key: str) -> None:
    rules = RoutingRules(guest_dm_scope=scope)  # type: ignore[arg-type]
    assert route(rules, arrive(is_owner=False)).key == key


LINKS = {"alice": ("telegram:123", "discord:987"), "bob": ("555",), "late": ("telegram:123",)}


@pytest.mark.parametrize("scope", ["per-peer", "per-channel-peer", "per-account-channel-peer"])
@pytest.mark.parametrize(
    ("channel", "peer"), [("telegram", "dm:123"), ("discord", "dm:987"), ("Telegram", "dm: 123 ")]
)
def test_a_linked_person_has_one_session_on_all_channels(
    scope: str, channel: str, peer: str
) -> None:
    rules = RoutingRules(dm_scope=scope, identity_links=LINKS)  # type: ignore[arg-type]
    found = route(rules, arrive(channel, peer))
    assert (found.key, found.linked) == ("agent:main:dm:alice", "alice")


def test_a_bare_id_links_on_every_channel() -> None:
    rules = RoutingRules(dm_scope="per-channel-peer", identity_links=LINKS)
    assert route(rules, arrive("signal", "dm:555")).key == "agent:main:dm:bob"


def test_links_do_not_count_in_the_main_session() -> None:
    rules = RoutingRules(identity_links=LINKS)
    assert (route(rules, arrive(peer="dm:123")).key) == "agent:main:main"


def test_a_stranger_called_like_a_linked_person_does_not_get_their_session() -> None:
    rules = RoutingRules(dm_scope="per-peer", identity_links=LINKS)
    assert route(rules, arrive(peer="dm:Alice")).key == "agent:main:telegram:dm:alice"


WORDS = st.text(max_size=30)
PEERS = st.builds(Peer, st.sampled_from(["dm", "group", "channel"]), WORDS)
ARRIVALS = st.builds(
    Arrival,
    channel=st.one_of(st.sampled_from(["telegram", "discord", "slack", "matrix"]), WORDS),
    account=WORDS,
    peer=st.one_of(st.none(), PEERS),
    guild=st.one_of(st.none(), WORDS),
    team=st.one_of(st.none(), WORDS),
    thread=st.one_of(st.none(), WORDS),
    is_forum=st.booleans(),
    is_owner=st.booleans(),
)
SCOPES = st.sampled_from(["main", "per-peer", "per-channel-peer", "per-account-channel-peer"])


@given(ARRIVALS, SCOPES, SCOPES, WORDS)
def test_every_message_has_a_key_and_always_the_same(
    arrival: Arrival, scope: str, guests: str, main: str
) -> None:
    rules = RoutingRules(dm_scope=scope, guest_dm_scope=guests, main_key=main)  # type: ignore[arg-type]
    key = route(rules, arrival).key
    assert key == route(rules, arrival).key
    assert key.startswith("agent:main:")
    parsed = parse_key(key)
    assert parsed is not None
    assert format_key(parsed) == key


TRICKY = st.lists(
    st.sampled_from(["a", "1", ":", "%", "topic", "thread", "dm", "74", "25", ":topic:", "%74"]),
    max_size=6,
).map("".join)


@given(
    st.sampled_from(["telegram", "slack", "discord", "matrix"]),
    st.tuples(st.sampled_from(["dm", "group", "channel"]), TRICKY, TRICKY),
    st.tuples(st.sampled_from(["dm", "group", "channel"]), TRICKY, TRICKY),
    st.sampled_from(["per-peer", "per-channel-peer", "per-account-channel-peer"]),
    st.booleans(),
)
def test_two_peers_of_a_channel_never_share_a_key(
    channel: str,
    one: tuple[str, str, str],
    other: tuple[str, str, str],
    scope: str,
    is_forum: bool,
) -> None:
    rules = RoutingRules(dm_scope=scope, identity_links=LINKS)  # type: ignore[arg-type]

    def look(given: tuple[str, str, str]) -> tuple[str, str]:
        kind, peer, thread = given
        thread = "" if channel == "discord" else thread  # a thread is a channel of its own there
        arrival = arrive(channel, f"{kind}:{peer}", thread=thread, is_forum=is_forum)
        return f"{kind}:{normalise_id(peer, channel) or 'unknown'}", route(rules, arrival).key

    (first, first_key), (second, second_key) = look(one), look(other)
    assume(first != second)
    assert first_key != second_key


SPELLED = st.text(alphabet="ab:%-_.1", min_size=1, max_size=12)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}", fullmatch=True)


IDS = st.one_of(TRICKY.filter(bool), SPELLED)
SPELLABLE = st.one_of(
    st.builds(ChannelKey, NAMES, st.sampled_from(["group", "channel"]), IDS, NAMES),
    st.builds(
        ChannelKey,
        NAMES,
        st.just("dm"),
        IDS,
        NAMES,
        st.one_of(st.none(), NAMES, st.sampled_from(["dm", "group", "channel"])),
    ),
    st.builds(ChannelKey, NAMES, st.sampled_from(["cron", "hook", "subagent", "node"]), IDS),
)


def test_a_group_whose_id_begins_like_a_direct_chat_has_no_account() -> None:
    key = ChannelKey("main", "group", "dm:5", "telegram")
    assert parse_key(format_key(key)) == key
    named = ChannelKey("main", "dm", "5", "telegram", "group")
    assert parse_key(format_key(named)) == named


@given(SPELLABLE, st.sampled_from(["topic", "thread", None]), IDS)
@example(ChannelKey("a", "group", "dm:topic:", "b"), "topic", "1")
@example(ChannelKey("a", "channel", "dm:1", "b"), None, "1")
def test_reading_a_key_gives_back_what_was_spelled(
    base: ChannelKey, mark: str | None, identity: str
) -> None:
    key = msgspec.structs.replace(base, **({mark: identity} if mark else {}))
    assert parse_key(format_key(key)) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("agent:main:cron:backup", ChannelKey("main", "cron", "backup")),
        ("agent:main:hook:1f", ChannelKey("main", "hook", "1f")),
        ("agent:a-b:node-pi", ChannelKey("a-b", "node", "pi")),
        ("agent:main:subagent:9", ChannelKey("main", "subagent", "9")),
        ("agent:main:main", ChannelKey("main", "main", "main")),
        ("agent:main:dm:x", ChannelKey("main", "dm", "x")),
        ("cli:api", None),
        ("agent:main", None),
        ("agent:main:what:is:this", None),
        ("agent:Main:main", None),
        ("", None),
    ],
)
def test_keys_are_read(text: str, key: ChannelKey | None) -> None:
    assert parse_key(text) == key
    assert key is None or format_key(key) == text


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("cron:backup", "agent:home:cron:backup"),
        ("hook:1", "agent:home:hook:1"),
        ("node-pi", "agent:home:node-pi"),
        ("subagent:1", "agent:home:subagent:1"),
        ("group:-100", "agent:home:whatsapp:group:-100"),
        ("group:group:-100", "agent:home:whatsapp:group:-100"),
        ("telegram:42", "telegram:42"),
        ("cli:api", "cli:api"),
        (" agent:main:main ", "agent:main:main"),
    ],
)
def test_short_and_older_forms_are_completed(text: str, key: str) -> None:
    assert complete_key(text, agent="home", channel="whatsapp") == key


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Home", "home"),
        ("  a b!c ", "a-b-c"),
        ("--x--", "x"),
        ("ünï", "n"),
        ("", ""),
        ("***", ""),
        ("a" * 80, "a" * 64),
        ("_x", "x"),
        ("a_b-c", "a_b-c"),
    ],
)
def test_words_are_made_of_letters_digits_and_dashes(text: str, word: str) -> None:
    assert normalise_word(text) == word
    assert normalise_word(word) == word


@pytest.mark.parametrize("text", ["", "42", "user:42", "dm"])
def test_a_peer_has_a_kind(text: str) -> None:
    with pytest.raises(InvalidInput, match="dm:ID, group:ID or channel:ID"):
        parse_peer(text)


# --- agents -----------------------------------------------------------------------------------

EVERYTHING = (
    bind("by-channel", account="*"),
    bind("by-account", account="biz"),
    bind("by-team", account="*", team="T1"),
    bind("by-guild", account="*", guild="G1"),
    bind("by-peer", account="*", peer="dm:+1000"),
    bind("second", account="*", peer="dm:+1000"),
)


@pytest.mark.parametrize(
    ("arrival", "agent", "matched_by"),
    [
        (arrive(account="biz", peer="dm:+1000", guild="g1", team="t1"), "by-peer", "binding.peer"),
        (arrive(account="biz", guild="g1", team="t1"), "by-guild", "binding.guild"),
        (arrive(account="biz", team="T1 "), "by-team", "binding.team"),
        (arrive(account="biz"), "by-account", "binding.account"),
        (arrive(account="other"), "by-channel", "binding.channel"),
        (arrive("slack"), "main", "default"),
        (arrive(peer="group:+1000"), "by-channel", "binding.channel"),
    ],
)
def test_the_closest_binding_chooses_the_agent(
    arrival: Arrival, agent: str, matched_by: str
) -> None:
    found = route(RoutingRules(bindings=EVERYTHING), arrival)
    assert (found.agent, found.matched_by) == (agent, matched_by)
    assert found.key.startswith(f"agent:{agent}:")


def test_a_binding_without_an_account_is_for_the_default_one() -> None:
    rules = RoutingRules(bindings=(bind("home"),))
    assert route(rules, arrive()).matched_by == "binding.account"
    assert route(rules, arrive(account="")).matched_by == "binding.account"
    assert route(rules, arrive(account="biz")).matched_by == "default"


def test_a_binding_that_names_several_things_fits_where_none_differs() -> None:
    """The example of the specification: a message has not always a guild."""
    example = bind(
        "home", channel="whatsapp", account="biz", peer="dm:+1000", guild="g1", team="t1"
    )
    rules = RoutingRules(bindings=(example,))
    fits = route(rules, arrive("whatsapp", "dm:+1000", account="biz"))
    assert (fits.agent, fits.matched_by) == ("home", "binding.peer")
    other = route(rules, arrive("whatsapp", "dm:+1000", account="biz", guild="g2"))
    assert other.matched_by == "default"
    assert "another guild" in other.considered[0].verdict


def test_a_guild_that_is_asked_for_and_not_there_does_not_fit() -> None:
    rules = RoutingRules(bindings=(bind("home", guild="g1"),))
    assert route(rules, arrive()).matched_by == "default"


def test_a_peer_without_a_kind_is_any_of_that_id() -> None:
    rules = RoutingRules(bindings=(bind("home", peer="-100"),))
    assert route(rules, arrive(peer="group:-100")).matched_by == "binding.peer"


def test_an_unknown_agent_is_the_default_one() -> None:
    agents = (AgentEntry("work"), AgentEntry("Home", default=True))
    rules = RoutingRules(agents=agents, bindings=(bind("gone"), bind("WORK", account="biz")))
    assert route(rules, arrive()).agent == "home"
    assert route(rules, arrive(account="biz")).agent == "work"
    assert route(rules, arrive("slack")).agent == "home"


def test_the_first_agent_is_the_default_where_none_is_marked() -> None:
    agents = (AgentEntry("work"), AgentEntry("home"))
    assert route(RoutingRules(agents=agents), arrive()).agent == "work"
