"""`Client.seats`: which session belongs to a terminal's place, and going to another one."""

from __future__ import annotations

from clew.api import seats
from clew.api.seats import (
    BeginSession,
    LeaveSeat,
    Located,
    LocateSeat,
    Reason,
    Seated,
    SwitchSeat,
    TerminalBreadcrumb,
    TerminalPlace,
)
from clew.api.sessions import SessionView
from clew.client.noun import Noun
from clew.core.models import Mode, Thinking
from clew.core.session import SendPolicy


class Seats(Noun):
    """A terminal's place among the sessions."""

    async def locate(
        self,
        where: TerminalPlace,
        *,
        key: str | None = None,
        continues: bool = False,
        crumb: TerminalBreadcrumb | None = None,
        allows: bool | None = None,
    ) -> Located:
        """The key of a place, and the session that it leads to.

        `allows`: what the person says about a directory that is in doubt (`Located.doubt`).
        """
        params = LocateSeat(where=where, key=key, continues=continues, crumb=crumb, allows=allows)
        return await self._do(seats.LOCATE, params)

    async def begin(
        self,
        where: TerminalPlace,
        key: str,
        *,
        title: str | None = None,
        pinned: bool = False,
        personality: str | None = None,
        model: str | None = None,
        thinking: Thinking | None = None,
        service_tier: str | None = None,
        mode: Mode | None = None,
        send_policy: SendPolicy | None = None,
        previous: str | None = None,
        resets: bool = False,
        yields: bool = False,
        transcript_path: str | None = None,
    ) -> SessionView:
        """Begin a session; with `resets`, only if the reset rules end `previous`."""
        params = BeginSession(
            where=where,
            key=key,
            title=title,
            pinned=pinned,
            personality=personality,
            model=model,
            thinking=thinking,
            service_tier=service_tier,
            mode=mode,
            send_policy=send_policy,
            previous=previous,
            resets=resets,
            yields=yields,
            transcript_path=transcript_path,
        )
        return await self._do(seats.BEGIN, params)

    async def switch(
        self,
        where: TerminalPlace,
        key: str,
        *,
        session: str | None = None,
        previous: str | None = None,
        reason: Reason = "resume",
        read_only: bool = False,
        forks: bool = False,
        moves: bool = False,
        returns: bool = False,
        stops: bool = False,
        waiting: tuple[str, ...] = (),
        title: str | None = None,
        model: str | None = None,
    ) -> Seated:
        """Go from `previous` to a session, or to a new one; see `SwitchSeat` for the rest."""
        params = SwitchSeat(
            where=where,
            key=key,
            session=session,
            previous=previous,
            reason=reason,
            read_only=read_only,
            forks=forks,
            moves=moves,
            returns=returns,
            stops=stops,
            waiting=waiting,
            title=title,
            model=model,
        )
        return await self._do(seats.SWITCH, params)

    async def leave(
        self,
        where: TerminalPlace,
        session: str,
        *,
        stops: bool = False,
        waiting: tuple[str, ...] = (),
    ) -> bool:
        """Leave a session. Returns whether its running turn was aborted, which `stops` asks for."""
        params = LeaveSeat(where=where, session=session, stops=stops, waiting=waiting)
        return (await self._do(seats.LEAVE, params)).stopped
