"""The order of what waits, where several processes have some of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.core.delivery import Inbound
from clew.core.tokens import ALL
from clew.runtime.lane.queue import Chore, Queue, Waiting, Work

NOBODY: Any = None
"""Who waits for it."""
MESSAGES = tuple("abcdefgh")
NAMES = st.lists(st.sampled_from(MESSAGES), unique=True)
PLACES = st.lists(
    st.sampled_from([*MESSAGES, "another attempt", "second attempt", "chore"]), unique=True
)


def row(name: str) -> Inbound:
    return Inbound(
        name, "telegram", "default", name, "k", "s", "owner", {}, "claimed", None, None, None, 0
    )


def put(queue: Queue, name: str) -> None:
    if name == "chore":
        queue.put(Chore(done=NOBODY, run=NOBODY))
        return
    inbound = row(name) if name in MESSAGES else None
    queue.put(Work(done=NOBODY, inbound=inbound, person=name, scopes=ALL))


def take(queue: Queue) -> str:
    taken = queue.take()
    if isinstance(taken, Chore):
        return "chore"
    return taken.person if taken.inbound is None else taken.inbound.id


@given(PLACES, NAMES)
def test_sorting_moves_only_messages_whose_order_is_known(
    places: list[str], order: list[str]
) -> None:
    queue = Queue()
    for each in places:
        put(queue, each)

    queue.sort(order)

    after = [take(queue) for _ in places]
    known = [each for each in places if each in order]
    assert [each for each in after if each in order] == sorted(known, key=order.index)
    for before, now in zip(places, after, strict=True):
        assert now == before or now in order


@given(NAMES, NAMES)
def test_ready_is_what_has_nothing_elsewhere_before_it(ids: list[str], here: list[str]) -> None:
    waiting = Waiting(tuple(ids), tuple(row(each) for each in ids if each not in here))
    for each in ids:
        earlier = [other.id for other in waiting.find_elsewhere(each)]
        assert earlier == [other for other in ids[: ids.index(each)] if other not in here]
    ready = {each for each in ids if each in here and not waiting.find_elsewhere(each)}
    assert waiting.list_ready(here) == ready
