"""The sessions that the pictures of the dashboard show: some weeks of a person and their agent.

They are written into a store before the gateway starts; a scripted model plays what happens while
the pictures are taken.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.core.changes import AddMessage, AddUsage, Change, EndTurn, StartTurn
from clew.core.message import Author, Draft, ToolCall
from clew.core.session import NewSession, SessionEdit
from clew.core.usage import Usage
from clew.ports import Store
from clew.store import open_store
from clew.testing.clock import FakeClock
from clew.testing.corpus import Conversation, Corpus, load

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
SEED: Final = 54
OTHERS: Final = 90
"""Sessions behind those that are told below."""
SCALE: Final = 60
"""How much more a heavy user spends than the corpus says."""
MODEL: Final = "claude-sonnet-4-5"

ASKS: Final = "Apply it, please, and run the tests."

CART: Final = '''\
from decimal import Decimal


class Cart:
    """What somebody is about to buy."""

    def total(self) -> Decimal:
        return sum((round(line.price * line.count, 2) for line in self.lines), Decimal())
'''

WHY: Final = """\
Each line is rounded **before** the lines are added, and the receipt rounds the sum once more. Ten
lines of 1.0005 become 10.01 that way.

| where | rounds | to |
|---|---|---|
| `Cart.total` | every line | 2 digits |
| `Receipt.sum` | the total | 2 digits |

I would add exactly and round once, where it is printed:

```python
def total(self) -> Decimal:
    \"\"\"The exact sum: only the receipt rounds.\"\"\"
    return sum((line.price * line.count for line in self.lines), Decimal())
```
"""
FOUND: Final = """\
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -4,5 +4,5 @@ class Cart:
     \"\"\"What somebody is about to buy.\"\"\"

     def total(self) -> Decimal:
-        return sum(line.price * line.count for line in self.lines)
+        return sum((round(line.price * line.count, 2) for line in self.lines), Decimal())
"""

Said = tuple[str, ...]
SAID: Final[tuple[tuple[str, str, str, float, Said], ...]] = (
    (
        "Renew the certificate of the web server",
        "cli",
        "shop",
        2 * DAY,
        (
            "The browser says that the shop is not safe any more.",
            "The certificate ran out last night: the timer still looks for the old name.",
        ),
    ),
    (
        "Invoice for the print shop",
        "email",
        "",
        40 * MINUTE,
        ("Please write an invoice for 200 cards.", "Here it is, number 2026-118, due in 14 days."),
    ),
    (
        "Train to Lisbon",
        "telegram",
        "",
        3 * HOUR,
        ("Which train is the earliest on Friday?", "The one at 06:12; you arrive at 19:40."),
    ),
    (
        "Morning report",
        "cron",
        "shop",
        9 * HOUR,
        (
            "Report what happened in the shop since yesterday.",
            "14 orders, one return, no errors. The backup took 42 seconds.",
        ),
    ),
    (
        "Slow search on the product page",
        "cli",
        "shop",
        20 * HOUR,
        ("Why does the search take a second?", "It sorts before it filters; an index is missing."),
    ),
    (
        "A letter to the landlord",
        "web",
        "",
        26 * HOUR,
        ("Make it friendlier, but keep the date.", "Dear Mrs Lindqvist, thank you for …"),
    ),
    (
        "Chapter three, second draft",
        "cli",
        "thesis",
        30 * HOUR,
        ("Is the argument in 3.2 sound?", "Almost: the second step needs the lemma of 2.4."),
    ),
    (
        "Watering plan for August",
        "telegram",
        "",
        3 * DAY,
        ("What do the tomatoes need?", "Two litres each evening, less when it rains."),
    ),
)


def furnish(home: Path, project: Path) -> None:
    """A home with a scripted model, and a project to work in."""
    home.mkdir(parents=True)
    (project / "shop").mkdir(parents=True)
    (project / "shop" / "cart.py").write_text(CART, encoding="utf-8")
    script = home / "script.json"
    script.write_text(json.dumps(_script()), encoding="utf-8")
    (home / "config.toml").write_text(
        f"""model = "studio/{MODEL}"
[providers.studio]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
context_window = 200000
""",
        encoding="utf-8",
    )


def _script() -> dict[str, Any]:
    edit = {
        "path": "shop/cart.py",
        "old": "return sum((round(line.price * line.count, 2) for line in self.lines), Decimal())",
        "new": "return sum((line.price * line.count for line in self.lines), Decimal())",
    }
    text = "I take the rounding out of `Cart.total`; then the tests run."
    call = {"name": "edit_file", "arguments": edit}
    rule = {"when": "Apply it", "answers": [{"text": text, "tool_calls": [call]}]}
    return {"title": "Rounded twice", "rules": [rule], "answers": ["All is well."]}


async def fill(home: Path, project: Path) -> str:
    """Write the sessions. Returns the id of the one that is opened."""
    now = time.time_ns() // 1_000_000 - MINUTE // 2
    url = str(home / "sessions.db")
    clock = FakeClock(now)
    async with await open_store(url, clock=clock, durability="normal") as store:
        made = Corpus(now=now - 2 * DAY, seed=SEED, blend="english").conversations(OTHERS)
        await load(store, map(_heavy, made), clock=clock)
    for title, platform, folder, age, said in SAID:
        at = now - int(age)
        where = f"/home/ada/{folder}" if folder else None
        new = _new(title, platform, where)
        async with await open_store(url, clock=partial(int, at)) as store:
            session = await store.create_session(new)
            question, answer = said
            await _record(store, session.id, _turn(title, at, _ask(question), _say(answer)))
            if title.startswith("Renew"):
                await store.edit_session(session.id, SessionEdit(pinned=True))
    async with await open_store(url, clock=partial(int, now - 2 * HOUR)) as store:
        await _tell_dinner(store, now - 2 * HOUR)
    async with await open_store(url, clock=partial(int, now - 6 * MINUTE)) as store:
        return await _tell_rounding(store, now - 6 * MINUTE, project)


def _new(title: str, platform: str, where: str | None, **more: Any) -> NewSession:
    at_home = platform in ("cli", "cron")
    return NewSession(
        id=str(uuid.uuid5(uuid.NAMESPACE_URL, title)),
        key=f"{platform}:{title[:8].strip().lower()}",
        platform=platform,
        kind=more.pop("kind", platform if at_home or platform == "web" else "dm"),
        title=title,
        cwd=where,
        project=where,
        model=f"studio/{MODEL}",
        channel=None if at_home else platform,
        **more,
    )


async def _tell_dinner(store: Store, at: int) -> None:
    """A group in which two people speak."""
    new = _new("Dinner on Friday", "telegram", None, kind="group", room="#friday")
    session = await store.create_session(new)
    ada = Author("telegram:1", "Ada", among=True)
    grace = Author("telegram:7", "Grace", among=True)
    await _record(
        store,
        session.id,
        _turn(
            "dinner",
            at,
            _ask("Who comes on Friday? I cook for six.", author=ada),
            _ask("Alan and I. Alan brings the wine, and he eats no fish.", author=grace),
            _say("Noted: six people, no fish for Alan, wine is taken care of."),
        ),
    )


async def _tell_rounding(store: Store, at: int, project: Path) -> str:
    """The session that is opened: a thought, a tool with a diff, a table and code."""
    new = _new("Why are the prices rounded twice?", "cli", str(project))
    session = await store.create_session(new)
    call = ToolCall("call_1", "shell", '{"command":"git show --stat=80 HEAD -- shop/cart.py"}')
    thought = {"type": "thinking", "text": "Two places round: which of them came first?"}
    await _record(
        store,
        session.id,
        _turn(
            "rounding",
            at,
            _ask("A customer paid 10.01 for ten things of 1.00. Why?"),
            Draft(
                role="assistant",
                content="The last change of the cart is the likely cause.",
                parts=(thought,),
                tool_calls=(call,),
                model=MODEL,
            ),
            Draft(role="tool", content=FOUND, tool_call_id=call.id, tool_name=call.name),
            _say(WHY),
        ),
    )
    return session.id


def _ask(text: str, author: Author | None = None) -> Draft:
    return Draft(role="user", content=text, author=author)


def _say(text: str) -> Draft:
    return Draft(role="assistant", content=text, model=MODEL)


def _turn(name: str, at: int, *drafts: Draft) -> Iterable[Change]:
    turn_id = uuid.uuid5(uuid.NAMESPACE_URL, f"turn {name}").hex[:16]
    yield StartTurn(turn_id=turn_id, model=MODEL, at=at)
    for draft in drafts:
        yield AddMessage(msgspec.structs.replace(draft, at=at), turn_id)
    yield AddUsage(usage=Usage(9_400, 1_250, 84_000, 0, 72_150_000, 3), turn_id=turn_id)
    yield EndTurn(turn_id=turn_id, status="done", at=at)


async def _record(store: Store, session_id: str, changes: Iterable[Change]) -> None:
    lease = await store.acquire_lease(session_id, "demo")
    await store.record(session_id, lease.epoch, *changes)
    await store.release_lease(lease)


def _heavy(told: Conversation) -> Conversation:
    turns = tuple(tuple(map(_spend_more, turn)) for turn in told.turns)
    return msgspec.structs.replace(told, turns=turns)


def _spend_more(change: Change) -> Change:
    if not isinstance(change, AddUsage):
        return change
    spent = change.usage
    more = Usage(
        spent.input_tokens * SCALE,
        spent.output_tokens * SCALE,
        spent.cache_read_tokens * SCALE,
        spent.cache_creation_tokens * SCALE,
        None if spent.cost is None else spent.cost * SCALE,
        spent.api_calls,
    )
    return msgspec.structs.replace(change, usage=more)
