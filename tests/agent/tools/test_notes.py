from __future__ import annotations

from clew.core.notes import Todo
from tests.agent.tools.conftest import Bench


async def test_an_entry_is_written_read_listed_and_deleted(bench: Bench) -> None:
    kept = await bench.call("scratchpad_write", name="facts", content="one\ntwo")
    assert kept.content == "Kept facts: 7 characters."
    assert (await bench.call("scratchpad_read", name="facts")).content == "     1\tone\n     2\ttwo"
    assert (await bench.call("scratchpad_list")).content == "facts (7 B)"
    assert (await bench.call("scratchpad_delete", name="facts")).content == "Deleted facts."
    assert (await bench.call("scratchpad_list")).content == "The scratchpad is empty."


async def test_an_entry_that_is_not_there_is_an_error(bench: Bench) -> None:
    assert (await bench.call("scratchpad_read", name="facts")).is_error
    assert (await bench.call("scratchpad_delete", name="facts")).is_error


async def test_a_long_entry_is_read_in_pages_and_not_kept_again(bench: Bench) -> None:
    await bench.call("scratchpad_write", name="long", content="word\n" * 20_000)
    page = await bench.call("scratchpad_read", name="long", limit=5000)
    assert len(page.content) <= 30_000
    assert "of 20000. Read on with offset=" in page.content
    assert [entry.name for entry in await bench.store.list_scratch(bench.turn.session.id)] == [
        "long"
    ]


async def test_todos_are_in_the_store_with_the_result(bench: Bench) -> None:
    todos = [{"text": "look", "status": "done"}, {"text": "leap"}]
    await bench.call("todo_write", todos=todos)
    assert await bench.store.get_todos(bench.turn.session.id) == (
        Todo("look", "done"),
        Todo("leap", "pending"),
    )
    assert (await bench.call("todo_read")).content == "[done] look\n[pending] leap"


async def test_wrong_arguments_are_told_in_words(bench: Bench) -> None:
    for arguments in ({}, {"todos": [{"text": "x", "status": "odd"}]}, {"todos": [], "more": 1}):
        outcome = await bench.call("todo_write", **arguments)
        assert outcome.is_error
        assert outcome.content.startswith("The arguments of todo_write are wrong: ")
    assert await bench.store.get_todos(bench.turn.session.id) == ()
