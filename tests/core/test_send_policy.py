from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.channels.send_policy import (
    SendMatch,
    SendRule,
    SendRules,
    decide_send,
    describe_conversation,
)

GROUP = describe_conversation("agent:main:discord:group:5")
DIRECT = describe_conversation("agent:main:main", "telegram")


def deny(**match: str) -> SendRule:
    return SendRule("deny", SendMatch(**match))  # type: ignore[arg-type]


def allow(**match: str) -> SendRule:
    return SendRule("allow", SendMatch(**match))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "given", "channel", "chat_type"),
    [
        ("agent:main:discord:group:5", (None, None), "discord", "group"),
        ("agent:main:slack:channel:c", (None, None), "slack", "channel"),
        ("agent:main:main", ("Telegram", None), "telegram", "direct"),
        ("agent:main:telegram:dm:1", (None, None), "telegram", "direct"),
        ("telegram:42", (None, "group"), "telegram", "group"),
        ("telegram:42", (None, None), "telegram", None),
        ("agent:main:cron:x", (None, None), None, None),
    ],
)
def test_a_conversation_is_read_from_its_key(
    key: str, given: tuple[str | None, str | None], channel: str | None, chat_type: str | None
) -> None:
    found = describe_conversation(key, *given)  # type: ignore[arg-type]
    assert (found.channel, found.chat_type) == (channel, chat_type)


@pytest.mark.parametrize(
    ("policy", "decision", "rule"),
    [
        (SendRules(), "allow", "default"),
        (SendRules("deny"), "deny", "default"),
        (SendRules(rules=(deny(channel="Discord", chat_type="group"),)), "deny", "rules[0]"),
        (SendRules(rules=(deny(channel="discord", chat_type="direct"),)), "allow", "default"),
        (SendRules(rules=(deny(channel="slack"),)), "allow", "default"),
        (SendRules(rules=(deny(),)), "deny", "rules[0]"),
        (SendRules("deny", (allow(channel="discord"),)), "allow", "rules[0]"),
        # Any deny wins, wherever it stands.
        (
            SendRules("deny", (allow(channel="discord"), deny(chat_type="group"))),
            "deny",
            "rules[1]",
        ),
        (SendRules(rules=(deny(key_prefix="discord:group:"),)), "deny", "rules[0]"),
        (SendRules(rules=(deny(key_prefix="agent:main:disc"),)), "deny", "rules[0]"),
        (SendRules(rules=(deny(key_prefix="group:"),)), "allow", "default"),
    ],
)
def test_rules_decide(policy: SendRules, decision: str, rule: str) -> None:
    found = decide_send(policy, GROUP)
    assert (found.decision, found.rule) == (decision, rule)
    assert len(found.considered) == len(policy.rules)


@pytest.mark.parametrize("override", ["allow", "deny"])
def test_the_sessions_own_word_comes_first(override: str) -> None:
    policy = SendRules("deny", (deny(), allow()))
    found = decide_send(policy, DIRECT, override=override)  # type: ignore[arg-type]
    assert (found.decision, found.rule) == (override, "override")


MATCHES = st.builds(
    SendMatch,
    st.one_of(st.none(), st.sampled_from(["discord", "telegram"])),
    st.one_of(st.none(), st.sampled_from(["direct", "group", "channel"])),
    st.one_of(st.none(), st.sampled_from(["agent:", "discord:", "main", ""])),
)
VERDICTS = st.sampled_from(["allow", "deny"])


@given(VERDICTS, st.lists(st.builds(SendRule, VERDICTS, MATCHES)), st.sampled_from([GROUP, DIRECT]))
def test_a_deny_that_fits_always_wins(default: str, rules: list[SendRule], where: object) -> None:
    policy = SendRules(default, tuple(rules))  # type: ignore[arg-type]
    fits = [
        each
        for each in rules
        if decide_send(SendRules("allow" if each.action == "deny" else "deny", (each,)), where).rule  # type: ignore[arg-type]
        != "default"
    ]
    found = decide_send(policy, where)  # type: ignore[arg-type]
    if any(each.action == "deny" for each in fits):
        assert found.decision == "deny"
    elif fits:
        assert found.decision == "allow"
    else:
        assert found.decision == default
