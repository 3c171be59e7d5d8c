"""The import of 2,000 sessions of Claude Code: its rate, its memory, and a scan of them.

The floor is clew's own import of the same sessions, exported as JSON lines: sources are made, each
way brings them into an empty store. Memory is what the process has at most, after a tenth of the
sessions and after all of them.
"""

from __future__ import annotations

import json
import random
import resource
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.corpora import Setting
from benchmarks.timing import Finding
from clew.core.session import OWNER, Retention, SessionFilter
from clew.ports import Store
from clew.store import open_store
from clew.transfer import export_session, import_transcript
from clew.transfer.histories import import_sources, scan
from clew.transfer.readers.claude_code import ClaudeCode
from clew.transfer.readers.reader import Home

SESSIONS: Final = 2_000
LINES: Final = 200
"""Lines of one session."""

WORDS: Final = tuple("the parser reads a line of a file and keeps what was said there".split())  # noqa: SIM905  # easier to read
BEGIN: Final = 1_760_000_000
RATE: Final = 1 / 3
SCAN: Final = 3.0
GROWTH: Final = 1.25


async def importing(setting: Setting) -> list[Finding]:
    """The whole of it; a twentieth if quick."""
    count = SESSIONS // 20 if setting.quick else SESSIONS
    home = setting.folder()
    lines = sum(_write_session(home, number) for number in range(count))
    folder = setting.folder()
    async with await open_store(f"sqlite://{folder}/sessions.db") as store:
        taken, early, late = await _bring(store, home, count)
        began = time.perf_counter()
        (found,) = await scan(store, [ClaudeCode()], Home(home, {}))
        scanned = time.perf_counter() - began
        await store.retain(Retention())
        listed = await store.count_sessions(SessionFilter(viewer=OWNER))
        own_lines, own = await _bring_own(store, setting)
    rate, own_rate = lines / taken, own_lines / own
    return [
        Finding(
            topic="import",
            what=f"{count:,} sessions of Claude Code, {lines:,} lines",
            clew=f"{rate:,.0f} lines/s",
            floor=f"{own_rate:,.0f} lines/s",
            compared=f"{rate / own_rate:.2f} of clew's own",
            bar=f"{RATE:.2f}",
            ok=rate / own_rate >= RATE,
        ),
        Finding(
            topic="import",
            what="memory after all of them, against a tenth",
            clew=f"{late / 1024:,.0f} MB",
            floor=f"{early / 1024:,.0f} MB",
            compared=f"{late / early:.2f} x",
            bar=f"{GROWTH} x",
            ok=late / early <= GROWTH,
        ),
        Finding(
            topic="import",
            what=f"a scan of {found.sessions:,}, all of them known",
            clew=f"{scanned * 1000:,.0f} ms",
            bar=f"{SCAN:.0f} s",
            ok=scanned <= SCAN and found.unchanged == count,
        ),
        Finding(
            topic="import",
            what="listed after retention",
            clew=f"{listed:,}",
            bar=f"{count:,}",
            ok=listed == count,
        ),
    ]


async def _bring(store: Store, home: Path, count: int) -> tuple[float, int, int]:
    reader = ClaudeCode()
    began = time.perf_counter()
    early = done = 0
    sources = list(reader.find(Home(home, {})))
    async for brought in import_sources(store, reader, sources, now=4_000_000_000_000):
        assert brought.outcome == "created", brought
        done += 1
        if done == max(1, count // 10):
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    late = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return time.perf_counter() - began, early, late


async def _bring_own(store: Store, setting: Setting) -> tuple[int, float]:
    """Lines of a tenth of the sessions as clew's own files, and how long their import takes."""
    page = await store.list_sessions(SessionFilter(viewer=OWNER), limit=200)
    files = [
        [piece.encode() async for piece in export_session(store, session, "jsonl")]
        for session in page.sessions
    ]
    folder = setting.folder()
    async with await open_store(f"sqlite://{folder}/sessions.db") as other:
        began = time.perf_counter()
        for lines in files:
            await import_transcript(other, lines)
        return sum(map(len, files)), time.perf_counter() - began


def _write_session(home: Path, number: int) -> int:
    """One session of Claude Code as it writes them; returns its lines."""
    chance = random.Random(number)
    native = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    folder = home / ".claude" / "projects" / f"-home-me-project-{number % 20}"
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    parent: str | None = None
    while len(lines) < LINES:
        for kind, message in _exchange(chance, len(lines)):
            name = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            line: dict[str, Any] = {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": f"/home/me/project-{number % 20}",
                "sessionId": native,
                "version": "2.0.14",
                "type": kind,
                "message": message,
                "uuid": name,
                "timestamp": _time(number * 1_000 + len(lines)),
            }
            lines.append(json.dumps(line))
            parent = name
    path = folder / f"{native}.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def _exchange(chance: random.Random, at: int) -> list[tuple[str, dict[str, Any]]]:
    """A question, two lines of an answer with a tool, its result, and the answer."""
    call, answer = f"toolu_{at}", f"msg_{at}"
    usage = {"input_tokens": 10, "cache_read_input_tokens": 9_000, "output_tokens": 90}
    base = {"role": "assistant", "type": "message", "model": "claude-sonnet-4-5", "usage": usage}
    use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": _say(chance, 6)}}
    said = {"type": "text", "text": _say(chance, 30)}
    result = {"type": "tool_result", "tool_use_id": call, "content": _say(chance, 200)}
    ended = {"stop_reason": "tool_use"}
    final = {"type": "text", "text": _say(chance, 80)}
    return [
        ("user", {"role": "user", "content": _say(chance, 20)}),
        ("assistant", base | {"id": answer, "content": [said], "stop_reason": None}),
        ("assistant", base | {"id": answer, "content": [use]} | ended),
        ("user", {"role": "user", "content": [result]}),
        ("assistant", base | {"id": f"{answer}b", "content": [final], "stop_reason": "end_turn"}),
    ]


def _say(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(BEGIN + seconds, UTC).isoformat().replace("+00:00", "Z")
