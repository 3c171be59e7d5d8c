"""Titles that nobody typed."""

from __future__ import annotations

import asyncio

from clew.core.session import Session, SessionEdit
from clew.errors import TurnFailed
from clew.ports import Store
from clew.runtime.runtime import Runtime
from tests.runtime.conftest import (
    Actor,
    Held,
    ended,
    failing,
    saying,
    soon,
    typed,
    until,
)


async def title_of(store: Store, session: Session) -> str | None:
    return (await store.get_session(session.id)).title


async def has_title(store: Store, session: Session, title: str) -> None:
    async def so() -> bool:
        return await title_of(store, session) == title

    await until(so)


async def test_the_first_turn_gives_a_title_from_its_prompt(
    store: Store, session: Session, runtime: Runtime
) -> None:
    await ended(await runtime.accept(typed(session, "# Plan my week\nand more")))
    await has_title(store, session, "Plan my week")
    assert (await store.get_session(session.id)).title_by == "auto"


async def test_the_title_is_kept_though_clew_closes_at_once(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    await ended(await runtime.accept(typed(session, "Plan my week")))
    await soon(runtime.close())
    assert await title_of(store, session) == "Plan my week"


async def test_a_models_title_takes_the_prompts_place(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.title = "A quiet week"
    await ended(await runtime.accept(typed(session, "Plan my week")))
    await has_title(store, session, "A quiet week")


async def test_a_model_that_fails_at_titles_leaves_the_prompts(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    unexpected: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: unexpected.append(context))
    actor.title = RuntimeError("no")
    await ended(await runtime.accept(typed(session, "Plan my week")))
    await soon(runtime.close())
    assert await title_of(store, session) == "Plan my week"
    assert unexpected == []


async def test_a_title_of_the_users_is_never_overwritten(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.title = "A quiet week"
    actor.scenes.append(held := Held())
    ticket = await runtime.accept(typed(session, "Plan my week"))
    await soon(held.began.wait())
    # The turn began when there was none.
    await store.edit_session(session.id, SessionEdit(title="Mine"))
    held.go_on.set()
    await ended(ticket)
    await soon(runtime.close())
    assert await title_of(store, session) == "Mine"


async def test_only_the_first_turn_gives_a_title(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.title = "A quiet week"
    await ended(await runtime.accept(typed(session, "Plan my week")))
    await has_title(store, session, "A quiet week")
    actor.title = "Another one"
    await ended(await runtime.accept(typed(session, "and the next")))
    await soon(runtime.close())
    assert await title_of(store, session) == "A quiet week"


async def test_a_turn_that_fails_gives_no_title_and_the_next_one_does(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.scenes.append(failing(TurnFailed("no")))
    await ended(await runtime.accept(typed(session, "first")))
    assert await title_of(store, session) is None
    await ended(await runtime.accept(typed(session, "second")))
    await has_title(store, session, "first")


async def test_a_prompt_that_says_nothing_gives_no_title(
    store: Store, session: Session, runtime: Runtime
) -> None:
    await ended(await runtime.accept(typed(session, "?!")))
    await soon(runtime.close())
    assert await title_of(store, session) is None


async def test_a_session_whose_title_is_being_made_is_not_given_another(
    session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.title_may_come.clear()
    await ended(await runtime.accept(typed(session, "?!")))
    await soon(actor.title_asked.wait())
    await ended(await runtime.accept(typed(session, "and on")))
    await soon(runtime.close())
    assert actor.titles_asked == 1


async def test_a_title_that_came_after_a_turn_had_begun_is_not_made_again_at_its_end(
    store: Store, session: Session, actor: Actor, runtime: Runtime
) -> None:
    actor.title = "A quiet week"
    actor.title_may_come.clear()
    actor.scenes += [saying("ok"), held := Held()]
    await ended(await runtime.accept(typed(session, "?!")))
    await soon(actor.title_asked.wait())
    ticket = await runtime.accept(typed(session, "and on"))
    await soon(held.began.wait())
    actor.title_may_come.set()
    await has_title(store, session, "A quiet week")
    held.go_on.set()
    await ended(ticket)
    await soon(runtime.close())
    assert actor.titles_asked == 1
