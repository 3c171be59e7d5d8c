"""Usage adds up with every style of provider: their real clients, against a peer on this machine.

And with the embedded model, which is asked in earnest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.usage import Usage
from tests.agent.peer import Reply, answer, peering
from tests.agent.styles import answer_google, answer_responses
from tests.runtime.rooms import Room, room
from tests.weights import have_weights

TEXT = "So it is, and not otherwise. " * 60
COMPATIBLE = 'kind = "{kind}"\nbase_url = "{url}"\napi_key = "a-key"\ncontext_window = 1500\n'
FACTORY = 'kind = "python"\nfactory = "tests.agent.styles:open_responses"\n'
STYLES: dict[str, tuple[str, Reply, Usage]] = {
    # 40 in, of which 30 are cached, and 10 out; Anthropic counts what is cached beside the rest.
    "openai chat": (
        COMPATIBLE.replace("{kind}", "openai").replace("{url}", "{url}/v1"),
        answer("openai", TEXT),
        Usage(40, 10, 30, 0, None, 1),
    ),
    "openai responses": (
        FACTORY + 'base_url = "{url}/v1"\ncontext_window = 1500\n',
        answer_responses(TEXT),
        Usage(40, 10, 30, 0, 162_500, 1),
    ),
    "anthropic": (
        COMPATIBLE.replace("{kind}", "anthropic"),
        answer("anthropic", TEXT),
        Usage(45, 10, 30, 5, None, 1),
    ),
    "google": (
        COMPATIBLE.replace("{kind}", "google"),
        answer_google(TEXT),
        Usage(40, 10, 30, 0, 28_900, 1),
    ),
}
WAY = ("hello", "/retry", "again", "and again", "more", "/undo", "/redo", "/compact", "/fork", "on")


async def walk(here: Room) -> Usage:
    """Do everything that costs something; what it cost in all."""
    for step in WAY:
        if step.startswith("/"):
            reply = await here.run(step)
            assert not reply.is_error, reply.text
        else:
            turn = await here.say(step)
            assert turn.status == "done", turn.error
    await here.check_sums()
    return await here.store.get_usage(since=0)


@pytest.mark.parametrize("style", STYLES)
async def test_usage_adds_up_with_every_style_of_provider(tmp_path: Path, style: str) -> None:
    provider, reply, each = STYLES[style]
    async with peering(*[reply] * 50) as peer:
        config = f"[providers.peer]\n{provider.format(url=peer.url)}[memory]\nflush = false\n"
        async with room(tmp_path, {}, config, model="peer/x") as here:
            await walk(here)
        asked = len(peer.bodies)
        async with room(tmp_path, {}, config, model="peer/x") as again:
            total = await again.store.get_usage(since=0)
            await again.check_sums()
    # Six turns and a summary; the title is one more if it came before the end.
    assert asked in (7, 8)
    assert total.api_calls in (7, 8)
    assert total == sum([each] * total.api_calls, Usage())


async def test_usage_adds_up_with_the_embedded_model(tmp_path: Path) -> None:
    have_weights()
    async with room(tmp_path, {}, model="local/smollm2-135m") as here:
        await here.say("Say yes.")
        for step in ("/retry", "/undo", "/redo", "/fork"):
            await here.run(step)
        await here.check_sums()
        total = await here.store.get_usage(since=0)
    assert total.api_calls == 2
    assert total.cost == 0
    assert total.input_tokens > 20
