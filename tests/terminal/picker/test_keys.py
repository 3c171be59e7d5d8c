"""Every key of the picker, over a real store."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.session import SessionFilter
from clew.ports import Store
from clew.terminal.picker import Picked
from tests.terminal.picker.desk import add, picker

EVERYTHING = SessionFilter(viewer="owner")


async def three(store: Store, here: Path) -> None:
    """Gamma is the newest, Alpha the oldest."""
    for title in ("Alpha", "Beta", "Gamma"):
        await add(store, title, f"about {title}", cwd=here)


async def test_enter_resumes_the_newest(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("enter")
        picked = await hands.ended()
    assert picked is not None
    assert (picked.session.title, picked.forks) == ("Gamma", False)


async def test_ctrl_f_forks(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("down", "ctrl+f")
        picked = await hands.ended()
    assert picked is not None
    assert (picked.session.title, picked.forks) == ("Beta", True)


async def test_escape_cancels(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.type("alp")
        await hands.press("escape")
        assert await hands.ended() is None


async def test_ctrl_c_leaves_with_zero_whatever_is_going_on(store: Store, here: Path) -> None:
    await three(store, here)
    for keys in ((), ("a",), ("delete",), ("ctrl+r",)):
        async with picker(store, here) as hands:
            await hands.press(*keys)
            if keys == ("ctrl+r",):
                await hands.until(lambda: hands.app.picker.has_class("-renaming"))
            await hands.press("ctrl+c")
            assert await hands.ended() is None
            assert (hands.app.return_code or 0) == 0


async def test_arrows_move_and_stay_inside(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("up", "up", "down")
        await hands.at("Beta")
        await hands.press("down", "down", "down")
        await hands.at("Alpha")
        await hands.press("up")
        await hands.at("Beta")


async def test_home_end_and_pages_reach_every_session(store: Store, here: Path) -> None:
    for number in range(150):
        await add(store, f"Number {number:03}", cwd=here)
    async with picker(store, here, size=(80, 24)) as hands:
        await hands.press("end")
        await hands.until(lambda: hands.selected == "Number 000")
        await hands.see("Number 000")
        await hands.press("pageup")
        await hands.until(lambda: 5 <= int((hands.selected or "000")[-3:]) <= 20)
        await hands.press("pagedown", "home")
        await hands.at("Number 149")
        await hands.press("pagedown")
        await hands.until(lambda: int((hands.selected or "149")[-3:]) < 145)


async def test_tab_turns_to_all_directories_and_back(
    store: Store, here: Path, elsewhere: Path
) -> None:
    await three(store, here)
    await add(store, "Over there", "hello", cwd=elsewhere)
    async with picker(store, here) as hands:
        assert "Over there" not in hands.text
        await hands.press("tab")
        await hands.see("Over there")
        assert "Sessions of all directories" in hands.text
        await hands.press("tab")
        await hands.see_no("Over there")


async def test_tab_works_on_the_empty_list(store: Store, here: Path, elsewhere: Path) -> None:
    await add(store, "Over there", "hello", cwd=elsewhere)
    async with picker(store, here) as hands:
        await hands.see("No sessions in this directory. Press Tab to see all.")
        await hands.press("tab")
        await hands.see("Over there")
        await hands.press("enter")
        picked = await hands.ended()
    assert picked is not None
    assert picked.session.title == "Over there"


@pytest.mark.parametrize("key", ["enter", "delete", "ctrl+f", "ctrl+r", "ctrl+t", "down", "end"])
async def test_keys_do_nothing_on_an_empty_list(store: Store, here: Path, key: str) -> None:
    async with picker(store, here) as hands:
        await hands.press(key)
        await hands.pilot.pause()
        assert not hands.app._exit
        await hands.see("No sessions in this directory. Press Tab to see all.")
        await hands.press("escape")
        assert await hands.ended() is None


async def test_ctrl_p_goes_through_the_platforms(store: Store, here: Path) -> None:
    for platform in ("cli", "telegram", "web"):
        await add(store, f"From {platform}", "hello", platform=platform)
    everything = ["From web", "From telegram", "From cli"]
    async with picker(store, here, everywhere=True) as hands:
        await hands.list(*everything)
        for platform in ("cli", "telegram", "web"):
            await hands.press("ctrl+p")
            await hands.see(f"{platform} only")
            await hands.list(f"From {platform}")
        await hands.press("ctrl+p")
        await hands.list(*everything)


async def test_the_platform_stays_when_the_directory_changes(store: Store, here: Path) -> None:
    await three(store, here)
    await add(store, "From afar", "hello", platform="telegram")
    async with picker(store, here, everywhere=True) as hands:
        await hands.press("ctrl+p", "ctrl+p")
        await hands.list("From afar")
        await hands.press("tab")
        await hands.see("No telegram sessions in this directory. Press Tab to see all.")
        await hands.press("tab")
        await hands.list("From afar")


async def test_ctrl_p_says_so_where_there_is_one_platform(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("ctrl+p")
        await hands.see("All are cli sessions.")


async def test_ctrl_r_renames(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("down", "ctrl+r")
        await hands.until(lambda: hands.app.picker.has_class("-renaming"))
        await hands.press("home", "delete", "delete", "delete", "delete")
        await hands.type("Delta")
        await hands.press("enter")
        await hands.see("Renamed.")
        await hands.list("Gamma", "Delta", "Alpha")
        await hands.at("Delta")
        await hands.press("enter")
        picked = await hands.ended()
    assert picked is not None
    assert (picked.session.title, picked.session.title_by) == ("Delta", "user")


async def test_a_renaming_that_is_cancelled_changes_nothing(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("ctrl+r")
        await hands.until(lambda: hands.app.picker.has_class("-renaming"))
        await hands.type("xyz")
        await hands.press("escape")
        await hands.until(lambda: not hands.app.picker.has_class("-renaming"))
        await hands.type("alp")
        await hands.until(lambda: hands.titles[:1] == ["Alpha"])
        assert not hands.app._exit
    assert [each.title for each in (await store.list_sessions(EVERYTHING)).sessions] == [
        "Gamma",
        "Beta",
        "Alpha",
    ]


async def test_a_title_that_the_store_refuses_is_said(store: Store, here: Path) -> None:
    session = await add(store, "Alpha", "hello", cwd=here)
    async with picker(store, here) as hands:
        await hands.press("ctrl+r")
        await hands.until(lambda: hands.app.picker.has_class("-renaming"))
        await store.delete_sessions([session.id])
        await store.purge_sessions([session.id])
        await hands.press("enter")
        await hands.see("not found")


async def test_ctrl_t_pins_to_the_top_and_back(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("end", "ctrl+t")
        await hands.see('Pinned "Alpha".')
        await hands.list("Alpha", "Gamma", "Beta")
        await hands.at("Alpha")
        await hands.see("★ Alpha")
        await hands.press("ctrl+t")
        await hands.see('Unpinned "Alpha".')
        await hands.list("Gamma", "Beta", "Alpha")
        await hands.see_no("★")


async def test_del_asks_and_trashes_and_ctrl_z_undoes(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("down", "delete")
        await hands.see('Put "Beta" in the trash? [y/N]')
        await hands.press("y")
        await hands.see("Ctrl+Z brings it back.")
        await hands.list("Gamma", "Alpha")
        await hands.at("Alpha")
        assert await store.count_sessions(EVERYTHING) == 2
        await hands.press("ctrl+z")
        await hands.see('"Beta" is back.')
        await hands.list("Gamma", "Beta", "Alpha")
        await hands.at("Beta")
    assert await store.count_sessions(EVERYTHING) == 3


@pytest.mark.parametrize("answer", ["n", "enter", "escape", "delete", "space", "down"])
async def test_anything_but_y_trashes_nothing(store: Store, here: Path, answer: str) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("delete")
        await hands.see("in the trash? [y/N]")
        await hands.press(answer)
        await hands.see_no("in the trash? [y/N]")
        assert not hands.app._exit
        await hands.list("Gamma", "Beta", "Alpha")
    assert await store.count_sessions(EVERYTHING) == 3


async def test_several_deletes_are_undone_one_by_one(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        for title, left in (("Gamma", 2), ("Beta", 1), ("Alpha", 0)):
            await hands.press("delete")
            await hands.see(f'Put "{title}" in the trash? [y/N]')
            await hands.press("y")
            await hands.until(lambda left=left: len(hands.titles) == left)  # type: ignore[misc]
        await hands.see("No sessions in this directory. Press Tab to see all.")
        for back in (1, 2, 3):
            await hands.press("ctrl+z")
            await hands.until(lambda back=back: len(hands.titles) == back)  # type: ignore[misc]
        await hands.press("ctrl+z")
        await hands.see("Nothing was put in the trash here.")
    assert await store.count_sessions(EVERYTHING) == 3


async def test_a_trashed_session_is_gone_from_the_other_lists_too(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("tab")
        await hands.see("all directories")
        await hands.press("delete")
        await hands.see("in the trash? [y/N]")
        await hands.press("y")
        await hands.see("Ctrl+Z brings it back.")
        await hands.press("tab")
        await hands.see("this directory")
        await hands.list("Beta", "Alpha")


async def test_a_session_that_somebody_else_trashed_is_not_opened(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        gamma = hands.app.picker._list.row
        assert gamma is not None
        await store.delete_sessions([gamma.id])
        await hands.press("enter")
        await hands.see("was deleted")
        await hands.list("Beta", "Alpha")


async def test_the_session_one_is_in_is_marked_and_not_trashed(store: Store, here: Path) -> None:
    session = await add(store, "Alpha", "hello", cwd=here)
    async with picker(store, here, current=session.id) as hands:
        await hands.see("you are here")
        await hands.press("delete")
        await hands.see("That is the session you are in.")
    assert await store.count_sessions(EVERYTHING) == 1


async def test_with_some_sessions_given_there_are_just_those(
    store: Store, here: Path, elsewhere: Path
) -> None:
    await three(store, here)
    one = await add(store, "One of two", "apples", cwd=elsewhere)
    two = await add(store, "Two of two", "pears", cwd=here)
    async with picker(store, here, only=(two, one)) as hands:
        await hands.list("Two of two", "One of two")
        assert "The sessions that match" in hands.text
        await hands.press("tab")
        await hands.see("Only these sessions match.")
        await hands.type("apples")
        await hands.until(lambda: hands.selected == "One of two")
        await hands.press("enter")
        picked = await hands.ended()
    assert isinstance(picked, Picked)
    assert picked.session.id == one.id


async def test_a_double_click_chooses(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.pilot.click("SessionList", offset=(5, 2))
        await hands.at("Alpha")
        await hands.pilot.click("SessionList", offset=(5, 2), times=2)
        picked = await hands.ended()
    assert picked is not None
    assert picked.session.title == "Alpha"


async def test_after_a_question_typing_goes_on_where_it_was(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.type("al")
        await hands.list("Alpha")
        await hands.press("delete")
        await hands.see("[y/N]")
        await hands.press("n")
        await hands.see_no("[y/N]")
        await hands.type("p")
        await hands.until(lambda: hands.app.picker.typed == "alp")


async def test_a_key_right_behind_an_answer_is_not_lost(store: Store, here: Path) -> None:
    await three(store, here)
    async with picker(store, here) as hands:
        await hands.press("down", "delete")
        await hands.see("[y/N]")
        await hands.press("n", "enter")
        picked = await hands.ended()
    assert picked is not None
    assert picked.session.title == "Beta"


async def test_keys_behind_the_last_one_do_no_harm(store: Store, here: Path) -> None:
    await three(store, here)
    for last in ("escape", "enter", "ctrl+c"):
        async with picker(store, here) as hands:
            await hands.press(last, *["down", "a", "enter", "delete", "y", "ctrl+c"] * 3)
            await hands.ended()
        assert (hands.app.return_code or 0) == 0
    assert await store.count_sessions(EVERYTHING) == 3
