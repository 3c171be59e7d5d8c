"""A process that writes by two frameworks into one store, and says what was acknowledged."""

from __future__ import annotations

import asyncio
import sys

from clew.adapters.claude import ClewSessionStore
from clew.adapters.openai_agents import ClewSession
from clew.store import open_store


async def write(url: str, name: str) -> None:
    """Write until this process is killed."""
    async with await open_store(url) as store:
        claude, openai = ClewSessionStore(store), ClewSession("shared", store)
        number = 0
        while True:
            text = f"{name} {number}"
            await openai.add_items([{"role": "user", "content": text}])
            sys.stdout.write(f"openai {text}\n")
            sys.stdout.flush()
            entry = {"type": "user", "uuid": text, "message": {"content": text}}
            await claude.append({"project_key": "p", "session_id": "s"}, [entry])  # type: ignore[list-item]
            sys.stdout.write(f"claude {text}\n")
            sys.stdout.flush()
            number += 1


if __name__ == "__main__":
    asyncio.run(write(*sys.argv[1:3]))
