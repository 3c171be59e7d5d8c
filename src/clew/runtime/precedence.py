"""Whose turn it is, in a session that several processes take messages for.

Messages are answered in the order in which they came into the inbox, whoever has them: what another
process has is waited for, what a dead one left is adopted first. Nobody is waited for for ever: a
process that lives and does nothing is passed over, and answers what it has when it wakes. Who runs
turns is decided by the lease, which is not known here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import msgspec

from clew.core.delivery import Inbound
from clew.core.session import Session
from clew.errors import SessionNotFound
from clew.ports import Clock, Store
from clew.runtime.recovery import MANY
from clew.runtime.stopping import is_own

PERSONS: Final = ("cli", "spawn")
"""Where messages are from that wait for their person, or for nobody, when their process is dead."""

YOUNG_MS: Final = 600_000
"""Two gateways may begin one session at once; a message of one is then filed elsewhere. Later than
this after a session's beginning, there is none of those any more.
"""

LOOK: Final = 0.2
"""Seconds between two looks at who is next."""

OWN: Final = 1.0
"""Seconds that a message may be on its way between the inbox of this process and its lane."""

TRIES: Final = 3
"""Times that a message is adopted before it is passed over: it can't be begun, and others can."""

Adopt = Callable[[Inbound], Awaitable[bool | None]]
"""Put a message that nobody has into its lane; False if somebody was quicker, None if that is not
this process's business.
"""


class Standing(msgspec.Struct, frozen=True):
    """What waits for a session: all of it, and what of it is not in this process's lane."""

    ids: tuple[str, ...]
    others: tuple[Inbound, ...]

    def list_before(self, inbound_id: str) -> tuple[str, ...]:
        """What came before that message; nothing, if it does not wait itself."""
        known = inbound_id in self.ids
        return self.ids[: self.ids.index(inbound_id)] if known else ()

    def find_elsewhere(self, inbound_id: str) -> tuple[Inbound, ...]:
        """What came before that message, and is not in the lane."""
        earlier = set(self.list_before(inbound_id)) if self.others else ()
        return tuple(each for each in self.others if each.id in earlier)

    def list_ready(self, here: Collection[str]) -> frozenset[str]:
        """Those of the lane that wait, with nothing elsewhere before them."""
        bar = self.ids.index(self.others[0].id) if self.others else len(self.ids)
        return frozenset(here).intersection(self.ids[:bar])


class Precedence:
    """Who is next in one session, as one lane sees it."""

    def __init__(
        self, store: Store, session_id: str, adopt: Adopt, *, clock: Clock, patience: float
    ) -> None:
        """`patience`: seconds in which another process has to begin what it has."""
        self._store = store
        self._session_id = session_id
        self._adopt = adopt
        self._clock = clock
        self._patience = patience
        self._passed: set[str] = set()
        """Messages that are no longer waited for."""
        self._tries: Counter[str] = Counter()
        self._session: Session | None = None
        """For what never changes of it: its key, and when it began."""

    async def look(self, here: Collection[str]) -> Standing:
        """What waits, in order; `here` are the messages in the lane."""
        rows = [row for row in await self._list() if row.id in here or self._counts(row)]
        others = tuple(row for row in rows if row.id not in here)
        return Standing(tuple(row.id for row in rows), others)

    async def wait(
        self, inbound_id: str, here: Callable[[], Collection[str]], tell: Callable[[], None]
    ) -> Standing:
        """Wait until nothing elsewhere comes before that message. `tell` it if it takes time."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        seen: tuple[str, ...] = ()
        while True:
            standing = await self.look(here())
            earlier = standing.find_elsewhere(inbound_id)
            if not earlier:
                return standing
            if await self._take_over(earlier):
                continue
            names = tuple(each.id for each in earlier)
            if names != seen or await self._store.find_lease(self._session_id) is not None:
                since, seen = loop.time(), names
            own = [each for each in earlier if is_own(self._store, each)]
            limit = OWN if len(own) == len(earlier) else self._patience
            if loop.time() - since > limit:
                self._passed.update(names)
                continue
            tell()
            await asyncio.sleep(LOOK)

    async def _take_over(self, earlier: Collection[Inbound]) -> bool:
        """Adopt what nobody alive has, or pass it over; False if all there is to do is wait."""
        is_other = False
        for row in earlier:
            if is_own(self._store, row) or not await self._is_left(row):
                continue
            adopted = None if row.channel in PERSONS else await self._adopt(row)
            if adopted is False:
                continue  # somebody was quicker
            is_other = True
            self._tries[row.id] += 1
            if adopted is None or self._tries[row.id] >= TRIES:
                self._passed.add(row.id)
        return is_other

    async def _is_left(self, row: Inbound) -> bool:
        return row.claimant is None or not await self._store.is_living(row.claimant)

    def _counts(self, row: Inbound) -> bool:
        is_persons = row.claimant is None and row.channel in PERSONS
        return row.id not in self._passed and not is_persons

    async def _list(self) -> tuple[Inbound, ...]:
        if self._session is None:
            try:
                self._session = await self._store.get_session(self._session_id)
            except SessionNotFound:
                return ()
        session = self._session
        if self._clock() - session.created_at > YOUNG_MS:
            return await self._store.list_inbound(session.id, limit=MANY)
        rows = await self._store.list_inbound(session.id, key=session.key, limit=MANY)
        return tuple(
            row for row in rows if row.session_id == session.id or _begins(row, session.key)
        )


def _begins(row: Inbound, key: str) -> bool:
    """Whether a message is for whatever session the key leads to when it is carried out."""
    opens = row.payload.get("opens")
    return row.key == key and isinstance(opens, dict) and opens.get("reset_reason") is None
