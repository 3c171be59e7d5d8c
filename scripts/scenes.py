"""The scenes that the pictures of the full screen show: small stories, played by the real program.

A scripted model speaks, its tools are real, and so is the store. A scene yields the screen when it
stands as it is to be drawn; whoever draws it does so before the scene goes on.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from clew.core.changes import AddMessage, EndTurn, StartTurn
from clew.core.message import Draft
from clew.core.session import NewSession, Session, SessionEdit
from clew.ports import Store
from clew.store import open_store
from clew.terminal.screen.approvals import SETTLES
from scripts.screens import Screen

Scene = Callable[[Path], Iterator[tuple[str, Screen]]]

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR

PROJECT = {
    "login.py": '''\
from shop.web import redirect


def login(user, next=None):
    """Where somebody goes who has just signed in."""
    return redirect(next or "/login")
''',
    "README.md": "# Shop\n",
}

WHY = """\
People who sign in without a `next` go **round in circles**:

1. `login()` sends them to `next`, and without one to `/login`,
2. where somebody who is signed in already is sent on by `login()`,
3. and so on, until the browser gives up.

The line is this one:

```python
return redirect(next or "/login")
```
"""
DONE = "Done: without `next`, people land on the front page now."


def script(hold: Path) -> dict[str, Any]:
    """What the model says about the shop."""
    edit = {"path": "login.py", "old": 'next or "/login"', "new": 'next or "/"'}
    return {
        "title": "Login redirect loop",
        "rules": [
            {
                "when": "circles",
                "answers": [
                    {"tool_calls": [{"name": "read_file", "arguments": {"path": "login.py"}}]},
                    {
                        "thinking": "A redirect that leads to itself.",
                        "text": WHY,
                        "chunk": 217,
                        "hold": str(hold),
                        "usage": {"input": 2140, "output": 158},
                    },
                ],
            },
            {
                "when": "Fix",
                "answers": [
                    {
                        "tool_calls": [{"name": "edit_file", "arguments": edit}],
                        "usage": {"input": 2410, "output": 61},
                    },
                    {"text": DONE, "usage": {"input": 2530, "output": 19}},
                ],
            },
            {"when": "tests", "answers": [{"error": {"status": 401}}]},
        ],
        "answers": ["Hm."],
    }


def furnish(scratch: Path) -> tuple[Path, Path]:
    """A home with a model, and a project."""
    home, project = scratch / "home", scratch / "shop"
    for directory in (home, project):
        directory.mkdir(parents=True)
    for name, text in PROJECT.items():
        (project / name).write_text(text, encoding="utf-8")
    told = home / "script.json"
    told.write_text(json.dumps(script(scratch / "go on")), encoding="utf-8")
    (home / "config.toml").write_text(
        f"""model = "script/scripted"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{told}"
context_window = 200000
""",
        encoding="utf-8",
    )
    return home, project


def chat(scratch: Path) -> Iterator[tuple[str, Screen]]:
    """From nothing to a mended program, and an error."""
    home, project = furnish(scratch)
    with Screen([], home, project) as screen:
        screen.wait_for("A new session", "Write a message", "New session")
        yield "chat-start", screen
        screen.type("Why does the login page send people in circles?\r")
        screen.wait_for("read_file", "and so on", "working")
        screen.type("Fix it, please")
        screen.wait_for("Fix it, please")
        yield "chat-streaming", screen
        (scratch / "go on").touch()
        screen.wait_for("The line is this one", "Login redirect loop")
        screen.type("\r")
        screen.wait_for("Yes, once")
        yield "chat-approval", screen
        time.sleep(SETTLES)  # a key that comes at once is not for the question
        screen.type("\t")
        screen.wait_for("━━━")
        screen.type("\r")
        screen.wait_for("people land on the front page")
        screen.type("Now run the tests.\r")
        screen.wait_for("/retry tries again")
        yield "chat-error", screen


# --- a store with something in it -----------------------------------------------------------------

SAID: tuple[tuple[str, str, float, str, tuple[str, ...]], ...] = (
    (
        "Renew the certificate of the web server",
        "shop",
        2 * DAY,
        "cli",
        (
            "The browser says that the shop is not safe any more.",
            (
                "The certificate of the server ran out last night. The timer that renews it has "
                "been failing since the move: it still looks for the old name."
            ),
            "Mend it.",
            (
                "Done. I changed the name in `renew.timer` and ran it once:\n\n"
                "    certificate valid until 14 May\n\nIt runs every night at three."
            ),
        ),
    ),
    (
        "Login redirect loop",
        "shop",
        12 * MINUTE,
        "cli",
        ("Why does the login page send people in circles?", WHY, "Fix it.", DONE),
    ),
    (
        "Why are the prices rounded twice?",
        "shop",
        3 * HOUR,
        "cli",
        (
            "A customer paid 10.01 for ten things of 1.00.",
            "Once in `Cart.total`, once in the receipt.",
        ),
    ),
    (
        "Move the shop to the new machine",
        "shop",
        4 * DAY,
        "cli",
        (
            "What has to come along?",
            (
                "The database, the pictures, and the certificate of the server with its key; all "
                "else is in the repository."
            ),
        ),
    ),
    (
        "Dinner on Friday",
        "",
        5 * DAY,
        "telegram",
        ("Who comes on Friday?", "Grace and Alan. Alan brings the wine."),
    ),
    ("A letter to the landlord", "letters", 26 * HOUR, "cli", ("Make it friendlier.", "Dear …")),
    (
        "Slow tests",
        "api",
        6 * DAY,
        "cli",
        ("Which test is the slowest?", "`test_certificate_chain`, with nine seconds."),
    ),
)


async def fill(home: Path, scratch: Path) -> list[Session]:
    """Sessions of some days: one is pinned, one was interrupted."""
    now = time.time_ns() // 1_000_000 - MINUTE // 2  # no age is just about to be another one
    made: list[Session] = []
    for title, folder, age, platform, said in SAID:
        at = now - int(age)
        where = str(scratch / folder) if folder else None
        new = NewSession(
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, title)),
            key=f"{platform}:{len(made)}",
            platform=platform,
            title=title,
            cwd=where,
            project=where,
        )
        async with await open_store(str(home / "sessions.db"), clock=partial(int, at)) as store:
            made.append(await _tell(store, new, said, cut_off=title.startswith("Why")))
            if title.startswith("Renew"):
                await store.edit_session(made[-1].id, SessionEdit(pinned=True))
    return made


async def _tell(store: Store, new: NewSession, said: tuple[str, ...], *, cut_off: bool) -> Session:
    session = await store.create_session(new, route=None)
    lease = await store.acquire_lease(session.id, "scene")
    for place in range(0, len(said), 2):
        turn = f"{session.id[:8]}-{place}"
        question, answer = said[place : place + 2]
        await store.record(
            session.id,
            lease.epoch,
            StartTurn(turn_id=turn),
            AddMessage(Draft(role="user", content=question), turn),
            AddMessage(Draft(role="assistant", content=answer), turn),
            EndTurn(turn_id=turn, status="interrupted" if cut_off else "done"),
        )
    await store.release_lease(lease)
    return session


def picker(scratch: Path) -> Iterator[tuple[str, Screen]]:
    """Finding a session by what was said in it, and putting one away."""
    home, project = furnish(scratch)
    asyncio.run(fill(home, scratch))
    with Screen(["--resume"], home, project) as screen:
        screen.wait_for("Login redirect loop", "Renew the certificate", "ran it once")
        screen.type("certificate of")
        screen.wait_for("1 name, 2 in messages", "The timer that renews it")
        screen.type("\x1b[B")  # Down, to what was only said
        screen.wait_for("> What has to come along?")
        yield "picker-hit", screen
        screen.type("\x15")  # Ctrl+U
        screen.wait_for("Why are the prices")
        screen.type("\x1b[B\x1b[3~")  # Down, Del
        screen.wait_for("[y/N]")
        yield "picker-trash", screen
    (scratch / "empty").mkdir()
    with Screen(["--resume"], home, scratch / "empty") as screen:
        screen.wait_for("No sessions in this directory")
        yield "picker-empty", screen


# --- a long conversation -------------------------------------------------------------------------

QUESTIONS = (
    "And the archive?",
    "What about people without an account?",
    "Is that fast enough?",
    "Say it in one sentence.",
)
ANSWERS = (
    (
        "It stays where it is. Only what was changed since March goes over:\n\n"
        "- orders and their **receipts**,\n- prices, with the day from which they hold,\n"
        "- pictures, but not their thumbnails."
    ),
    "They keep their basket for a week; then `sweep()` takes it away.",
    (
        "| step | before | now |\n|---|---|---|\n| find | 310 ms | 12 ms |\n"
        "| sort | 40 ms | 9 ms |\n\nMost of it is the new index."
    ),
    "Everything that was ordered is kept, everything that was only looked at is not.",
)
LENGTH = 1_000


async def grow(home: Path, project: Path) -> Session:
    """A session that has lasted a while."""
    said = tuple(
        ANSWERS[place // 2 % 4] if place % 2 else QUESTIONS[place // 2 % 4]
        for place in range(LENGTH)
    )
    new = NewSession(key="cli:shop", title="The great move", cwd=str(project), project=str(project))
    async with await open_store(str(home / "sessions.db"), durability="normal") as store:
        session = await store.create_session(new)
        lease = await store.acquire_lease(session.id, "scene")
        changes = [
            AddMessage(Draft(role="assistant" if place % 2 else "user", content=text))
            for place, text in enumerate(said)
        ]
        await store.record(session.id, lease.epoch, *changes)
        await store.release_lease(lease)
        return await store.get_session(session.id)


def long(scratch: Path) -> Iterator[tuple[str, Screen]]:
    """A thousand messages, of which some are on the screen."""
    home, project = furnish(scratch)
    asyncio.run(grow(home, project))
    with Screen([], home, project) as screen:
        screen.wait_for("The great move", "Write a message", "1,000 messages")
        screen.type("\x1b[5~")  # PgUp
        screen.wait_for("And the archive?")
        yield "chat-long", screen


SCENES: dict[str, tuple[Scene, tuple[str, ...]]] = {
    "chat": (chat, ("chat-start", "chat-streaming", "chat-approval", "chat-error")),
    "picker": (picker, ("picker-hit", "picker-trash", "picker-empty")),
    "long": (long, ("chat-long",)),
}
"""What is played, and the pictures that come of it."""
