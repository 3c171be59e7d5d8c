"""A small dashboard: the newest sessions, and what happens in them, as it happens.

    python examples/dashboard.py                                  this machine's clew
    CLEW_TOKEN=clew_… python examples/dashboard.py --url http://127.0.0.1:7717
    python examples/dashboard.py --say "How are you?"             say something first

It uses nothing but the SDK. Ctrl+C ends it.
"""

# ruff: noqa: T201  # what it says is for the terminal
from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from collections.abc import Iterable

import clew
from clew.api.frames import ErrorFrame, EventFrame, GapFrame, HintFrame, StateFrame
from clew.api.sessions import ListedSession
from clew.core.live_events import ApprovalAsked, Committed, TextDelta, TurnEnded, TurnStarted

MARKS = {"running": "▶", "waiting": "?", "interrupted": "!", "open": "·", None: " "}


def show_sessions(sessions: Iterable[ListedSession]) -> None:
    """A line for each session: what goes on, its id, its name, its tokens."""
    for each in sessions:
        name = each.title or each.preview or "(nothing said yet)"
        print(f"{MARKS[each.status]} {each.short_id}  {plain(name):<50}  {each.total_tokens:>9,}")


def show_event(frame: EventFrame) -> None:
    """A line for what happened; the answer itself as it comes."""
    match frame.event:
        case Committed(message) if message.content:
            said = plain(message.content, 500)
            print(f"\n{frame.session[:8]} #{message.seq} {message.role}: {said}")
        case TextDelta(text):
            print(plain(text, 500, strip=False), end="", flush=True)
        case TurnStarted():
            print(f"\n{frame.session[:8]} …", end=" ", flush=True)
        case TurnEnded(turn):
            print(f"\n{frame.session[:8]} {turn.status}{f': {turn.error}' if turn.error else ''}")
        case ApprovalAsked(approval):
            print(f"\n{frame.session[:8]} asks: may {approval.tool_name} run? ({approval.id})")


def plain(text: str, length: int = 50, *, strip: bool = True) -> str:
    """One line that no terminal obeys."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(shown.split())[:length] if strip else shown[:length]


async def watch(client: clew.Client, *, only_once: bool = False) -> None:
    """Show the list, then follow its newest sessions and whatever begins."""
    followed: set[str] = set()
    async with client.live() as live:
        await live.subscribe()
        async for frame in live:
            match frame:
                case StateFrame(sessions=sessions):
                    show_sessions(sessions)
                    for each in (each for each in sessions[:20] if each.id not in followed):
                        followed.add(each.id)
                        await live.subscribe(each.id, after=each.head)
                    if only_once:
                        return
                case HintFrame(kind="created", session=session) if session not in followed:
                    followed.add(session)
                    await live.subscribe(session, after=0)
                case HintFrame():
                    print(f"\n{frame.session[:8]} {frame.kind}: {plain(frame.title or '')}")
                case EventFrame():
                    show_event(frame)
                case GapFrame() | ErrorFrame():
                    print(f"\n{frame}")


async def main() -> None:
    """Read the arguments, and watch."""
    parser = argparse.ArgumentParser(description="What happens in your sessions, as it happens.")
    parser.add_argument("--url", help="a gateway; left out, this machine's clew")
    parser.add_argument("--home", help="clew's directory, without a gateway")
    parser.add_argument("--say", help="begin with saying this, in a new session")
    parser.add_argument("--once", action="store_true", help="show the list and end")
    given = parser.parse_args()
    there = clew.Client(given.url, os.environ.get("CLEW_TOKEN")) if given.url else None
    async with there or clew.local(given.home) as client:
        if given.say:
            async for frame in client.chat.send(given.say):
                show_event(frame)
        await watch(client, only_once=given.once)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
