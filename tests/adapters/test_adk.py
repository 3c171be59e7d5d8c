from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event, EventActions
from google.genai import types

from clew.adapters.adk import ClewSessionService
from clew.core.session import OWNER, SessionFilter
from clew.core.usage import Usage
from clew.errors import StoreClosed
from clew.ports import Store
from clew.store import open_store
from tests.adapters.adk_model import Comparison
from tests.sizes import pick

PLACE: Any = {"app_name": "app", "user_id": "u", "session_id": "1"}


@pytest.mark.parametrize("seed", range(pick(3, 50)))
async def test_it_does_what_the_service_in_memory_does(store: Store, seed: int) -> None:
    await Comparison(ClewSessionService(store), seed).run(pick(40, 100))


def event(author: str, *parts: types.Part, **fields: object) -> Event:
    return Event(author=author, content=types.Content(parts=list(parts)), **fields)  # type: ignore[arg-type]


async def test_events_are_read_like_any_session(store: Store) -> None:
    service = ClewSessionService(store)
    session = await service.create_session(**PLACE)
    call = types.FunctionCall(id="c1", name="weather", args={"city": "Köln"})
    answer = types.FunctionResponse(id="c1", name="weather", response={"sky": "rain"})
    spent = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=9, candidates_token_count=2, cached_content_token_count=4
    )
    for each in (
        event("user", types.Part(text="Weather?")),
        event("bot", types.Part(function_call=call), usage_metadata=spent, model_version="g"),
        event("bot", types.Part(function_response=answer)),
        event("bot", actions=EventActions(state_delta={"app:x": 1})),
        event("bot", types.Part(text="It rains.")),
    ):
        await service.append_event(session, each)

    (kept,) = (await store.list_sessions(SessionFilter(viewer=OWNER))).sessions
    assert (kept.key, kept.platform, kept.name) == ("adk:app/u/1", "google-adk", "Weather?")
    said = await store.get_messages(kept.id)
    assert [each.role for each in said] == ["user", "assistant", "tool", "assistant"]
    assert said[1].tool_calls[0].arguments == '{"city":"Köln"}'
    assert (said[2].content, said[2].tool_call_id) == ('{"sky":"rain"}', "c1")
    assert kept.usage == Usage(5, 2, 4, 0, None, 1)
    await store.mark_sessions([kept.id], archived=True)
    # A fork that a person makes of it is none of the kit's.
    await store.fork_session(kept.id)
    found = await service.get_session(**PLACE)
    assert found is not None
    assert [each.id for each in found.events] == [each.id for each in session.events]
    assert len((await service.list_sessions(app_name="app")).sessions) == 1
    await service.delete_session(**PLACE)
    trash = await store.list_sessions(SessionFilter(viewer=OWNER, trashed=True))
    assert [each.id for each in trash.sessions] == [kept.id]


async def test_processes_that_write_at_once_lose_no_event_and_no_state(url: str) -> None:
    async with await open_store(url) as one, await open_store(url) as two:
        services = ClewSessionService(one), ClewSessionService(two)
        made = await asyncio.gather(
            *(each.create_session(**PLACE) for each in services), return_exceptions=True
        )
        assert sorted(isinstance(each, AlreadyExistsError) for each in made) == [False, True]
        sessions = [await each.get_session(**PLACE) for each in services]
        names = [f"{scope}n{at}" for at, scope in enumerate(("app:", "user:", "") * 5)]

        async def append(at: int) -> None:
            change = EventActions(state_delta={names[at]: at})
            session = sessions[at % 2]
            assert session is not None
            await services[at % 2].append_event(session, event("bot", actions=change))

        await asyncio.gather(*map(append, range(15)))
        found = await services[0].get_session(**PLACE)
        assert found is not None
        assert found.state == {name: at for at, name in enumerate(names)}
        assert len(found.events) == 15


async def test_a_service_over_a_url_opens_and_closes_its_store(url: str) -> None:
    service = ClewSessionService(url)
    await service.create_session(app_name="app", user_id="u")
    await service.close()
    with pytest.raises(StoreClosed):
        await service.list_sessions(app_name="app")
