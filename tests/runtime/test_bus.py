"""Events of a session, to whoever watches it in this process."""

from __future__ import annotations

from clew.core.live_events import TextDelta
from clew.runtime.watch import BACKLOG, Bus


def test_everybody_who_watches_a_session_gets_its_events_in_order() -> None:
    bus = Bus()
    with bus.subscribe("one") as first, bus.subscribe("one") as second:
        bus.publish("one", TextDelta("a"))
        bus.publish("one", TextDelta("b"))
        for mailbox in (first, second):
            assert [mailbox.get_nowait() for _ in range(2)] == [TextDelta("a"), TextDelta("b")]


def test_events_of_other_sessions_are_not_seen() -> None:
    bus = Bus()
    with bus.subscribe("one") as mailbox:
        bus.publish("two", TextDelta("a"))
        assert mailbox.empty()


def test_who_has_left_gets_nothing_and_nothing_is_kept_of_them() -> None:
    bus = Bus()
    with bus.subscribe("one") as mailbox:
        pass
    bus.publish("one", TextDelta("a"))
    assert mailbox.empty()
    assert not bus._mailboxes


def test_what_comes_before_somebody_watches_is_not_remembered() -> None:
    bus = Bus()
    bus.publish("one", TextDelta("a"))
    with bus.subscribe("one") as mailbox:
        assert mailbox.empty()


def test_a_watcher_that_does_not_read_costs_nobody_anything() -> None:
    bus = Bus()
    with bus.subscribe("one") as slow:
        for number in range(BACKLOG + 10):
            bus.publish("one", TextDelta(str(number)))
        with bus.subscribe("one") as quick:
            bus.publish("one", TextDelta("last"))
            assert quick.get_nowait() == TextDelta("last")
        assert slow.qsize() == BACKLOG
        assert slow.get_nowait() == TextDelta("0")
