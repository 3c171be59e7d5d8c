"""What typing finds: names at once, and the full text of every message."""

from __future__ import annotations

from pathlib import Path

from clew.core.session import SessionEdit
from clew.ports import Store
from tests.terminal.picker.desk import Hands, add, picker

HEADING = "── in messages"


async def look_for(hands: Hands, text: str) -> None:
    """Type something, and wait until all of it has been looked for."""
    board = hands.app.picker
    await hands.type(text)
    await hands.until(lambda: board.typed.endswith(text))
    await hands.until(lambda: board.is_named and board.is_searched)


async def test_names_come_first_and_messages_below(store: Store, here: Path) -> None:
    await add(store, "Repair the bicycle", "the chain is loose", cwd=here)
    await add(store, "Groceries", "buy milk", "and a lock for the bicycle", cwd=here)
    await add(store, "Holidays", "where to go", cwd=here)
    async with picker(store, here) as hands:
        await look_for(hands, "bicycle")
        await hands.list("Repair the bicycle", HEADING, "Groceries")
        await hands.at("Repair the bicycle")
        await hands.press("down")
        await hands.at("Groceries")
        await hands.see("1 name, 1 in messages")


async def test_directory_id_and_first_prompt_are_looked_at_too(
    store: Store, here: Path, elsewhere: Path
) -> None:
    session = await add(store, "Alpha", "tune the carburettor", cwd=here)
    await add(store, "Beta", "nothing special", cwd=elsewhere)
    async with picker(store, here, everywhere=True) as hands:
        for typed, expected in (
            (session.id[:6], "Alpha"),
            (elsewhere.name, "Beta"),
            ("carbur", "Alpha"),
        ):
            await look_for(hands, typed)
            await hands.at(expected)
            await hands.press("ctrl+u")
            await hands.until(lambda: not hands.app.picker.typed and len(hands.titles) == 2)


async def test_a_slip_of_the_keys_is_forgiven(store: Store, here: Path) -> None:
    await add(store, "Login is broken", "hello", cwd=here)
    await add(store, "Groceries", "hello", cwd=here)
    async with picker(store, here) as hands:
        await look_for(hands, "lgoin brokn")
        await hands.list("Login is broken")


async def test_enter_right_after_typing_opens_what_was_typed(store: Store, here: Path) -> None:
    for title in ("Alpha", "Beta", "Gamma"):
        await add(store, title, "hello", cwd=here)
    async with picker(store, here) as hands:
        await hands.press(*"alpha", "enter")
        picked = await hands.ended()
    assert picked is not None
    assert picked.session.title == "Alpha"


async def test_enter_waits_for_the_messages_where_no_name_fits(store: Store, here: Path) -> None:
    await add(store, "Alpha", "hello", cwd=here)
    await add(store, "Beta", "first things first", "the zygote divides", cwd=here)
    async with picker(store, here) as hands:
        await hands.press(*"zygote", "enter")
        picked = await hands.ended()
    assert picked is not None
    assert picked.session.title == "Beta"


async def test_the_preview_shows_the_last_messages(store: Store, here: Path) -> None:
    await add(store, "Alpha", "How do I boil an egg?", "Six minutes in boiling water.", cwd=here)
    async with picker(store, here) as hands:
        await hands.see("> How do I boil an egg?")
        await hands.see("Six minutes in boiling water.")


async def test_the_preview_shows_the_hit_in_its_surroundings(store: Store, here: Path) -> None:
    before = [f"remark number {number}" for number in range(40)]
    long = "\n".join([*(f"line {n}" for n in range(60)), "a palimpsest of notes", "and more"])
    await add(store, "Alpha", *before, long, "what came after it", cwd=here)
    async with picker(store, here) as hands:
        await hands.see("what came after it")
        await hands.type("palimpsest")
        await hands.see("a palimpsest of notes")
        await hands.see("line 59")
        assert "remark number 3\n" not in hands.text
        marked = [
            segment.text
            for line in hands.app.screen._compositor.render_strips()
            for segment in line
            if segment.style is not None and segment.style.underline
        ]
        assert "palimpsest" in marked


async def test_the_scope_and_the_platform_hold_for_messages_too(
    store: Store, here: Path, elsewhere: Path
) -> None:
    await add(store, "Here", "one", "the quincunx", cwd=here)
    await add(store, "There", "two", "the quincunx", cwd=elsewhere)
    await add(store, "Afar", "three", "the quincunx", platform="telegram")
    async with picker(store, here) as hands:
        await look_for(hands, "quincunx")
        await hands.list(HEADING, "Here")
        await hands.press("tab")
        await hands.until(lambda: set(hands.titles) == {HEADING, "Here", "There", "Afar"})
        await hands.press("ctrl+p", "ctrl+p")
        await hands.list(HEADING, "Afar")


async def test_archived_sessions_are_found_by_what_was_said_and_marked(
    store: Store, here: Path
) -> None:
    session = await add(store, "Alpha", "one", "the quincunx", cwd=here)
    await store.edit_session(session.id, SessionEdit(archived=True))
    await add(store, "Beta", "two", cwd=here)
    async with picker(store, here) as hands:
        await hands.list("Beta")
        await look_for(hands, "quincunx")
        await hands.list(HEADING, "Alpha")
        await hands.see("archived")


async def test_what_fits_nothing_says_so_and_where_to_look(store: Store, here: Path) -> None:
    await add(store, "Alpha", "hello", cwd=here)
    async with picker(store, here) as hands:
        await hands.type("xyzzy")
        await hands.see('No session matches "xyzzy". Press Tab to search everywhere.')
        await hands.press("enter", "delete")
        assert not hands.app._exit
        await hands.press(*["backspace"] * 5)
        await hands.list("Alpha")


async def test_a_change_shows_in_what_was_found(store: Store, here: Path) -> None:
    await add(store, "Alpha bet", "one", "the quincunx", cwd=here)
    await add(store, "Alpha dog", "two", "the quincunx", cwd=here)
    async with picker(store, here) as hands:
        await look_for(hands, "alpha")
        await hands.press("end", "ctrl+t")
        await hands.see('Pinned "')
        assert hands.text.count("★") >= 1
        await hands.press("delete")
        await hands.see("in the trash? [y/N]")
        await hands.press("y")
        await hands.see("Ctrl+Z brings it back.")
        assert len(hands.titles) == 1
        await hands.press("ctrl+z")
        await hands.until(lambda: len(hands.titles) == 2)


async def test_names_that_are_loaded_later_are_found(store: Store, here: Path) -> None:
    await add(store, "The oldest needle", cwd=here)
    for number in range(700):
        await store.create_session(_new(number, here), route=None)
    async with picker(store, here) as hands:
        await hands.type("needle")
        await hands.list("The oldest needle")


async def test_guests_see_only_their_own(store: Store, here: Path) -> None:
    await add(store, "The owner's", "one", "the quincunx")
    await add(store, "The guest's", "two", "the quincunx", person="telegram:7")
    async with picker(store, here, everywhere=True, viewer="telegram:7") as hands:
        await hands.list("The guest's")
        await look_for(hands, "quincunx")
        await hands.list(HEADING, "The guest's")


def _new(number: int, here: Path):  # type: ignore[no-untyped-def]
    from clew.core.session import NewSession

    return NewSession(key=f"cli:{number}", title=f"Straw {number}", cwd=str(here))
