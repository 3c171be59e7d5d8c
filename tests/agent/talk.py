"""One conversation with a model server, in this process or in one of its own.

`python -m tests.agent.talk STORE STYLE URL PROMPT` goes on with what the store has.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

from clew.agent.loop import TurnSetup, run_turn
from clew.agent.models.providers import ProviderSetup, open_provider_model
from clew.agent.tool_interface import ToolOutcome
from clew.core.models import ModelInfo
from clew.ports import Store
from clew.store import open_store
from tests.agent.conftest import DEFAULT, Naps, StoreTurn, Tools, begin_turn, build_prompt
from tests.agent.peer import Style

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c02"
    "0000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)


def tools_of(store: Store) -> Tools:
    """A tool that sees, one that paints, one that fails."""
    tools = Tools()

    async def look(arguments: dict[str, Any]) -> str:
        # Ends in any order: the provider must not notice.
        await asyncio.sleep(random.random() / 200)
        return f"seen {arguments.get('x')}"

    async def paint(arguments: dict[str, Any]) -> ToolOutcome:
        picture = {"blob": await store.put_blob(PNG, "image/png"), "media_type": "image/png"}
        return ToolOutcome(content="painted", parts=(picture,))

    async def fail(arguments: dict[str, Any]) -> ToolOutcome:
        return ToolOutcome(content="No such file.", is_error=True)

    tools.add("look", look, parallel=True)
    tools.add("paint", paint, parallel=True)
    tools.add("fail", fail)
    return tools


async def say(
    store: Store,
    style: Style,
    url: str,
    prompt: str,
    *,
    picture: bool = False,
    naps: Naps | None = None,
    model: str = "peer-1",
    key: str = "key",
    settings: dict[str, Any] | None = None,
    turn: StoreTurn | None = None,
) -> StoreTurn:
    """One turn against the server at that address, or the rest of one that has begun."""
    parts: tuple[dict[str, Any], ...] = ()
    if picture:
        blob = await store.put_blob(PNG, "image/png")
        parts = ({"blob": blob, "media_type": "image/png"},)
    turn = turn or await begin_turn(store, prompt, parts=parts)
    info = ModelInfo(name=f"{style}/{model}", provider=style, images=True)
    address = f"{url}/v1" if style == "openai" else url
    setup = ProviderSetup(name=style, kind=style, base_url=address, api_key=lambda: key)
    opened = open_provider_model(setup, model)
    turn_setup = TurnSetup(
        info=info,
        model=opened.model,
        settings=settings or ({"cache": True} if style == "anthropic" else {}),
        personality=DEFAULT,
        toolbox=tools_of(store),
        build_prompt=build_prompt,
        get_blob=store.get_blob,
        put_blob=store.put_blob,
        sleep=naps or Naps(),
        chance=lambda: 0.0,
    )
    try:
        await run_turn(turn, turn_setup)
    finally:
        if opened.client is not None:
            await opened.client.aclose()
    return turn


async def main(url: str, style: Style, address: str, prompt: str) -> None:
    async with await open_store(url) as store:
        await say(store, style, address, prompt)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))  # type: ignore[arg-type]
