"""The editor: keys, pastes, history, and what it asks the popup."""

from __future__ import annotations

import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from clew.errors import InvalidInput
from clew.terminal.screen import driver
from clew.terminal.screen.completion import Choice, Popup, complete_command
from clew.terminal.screen.editor import Editor
from clew.terminal.screen.handover import find_editor
from clew.terminal.screen.history import KEPT, LONGEST, History, history_file
from tests.terminal.screen.chats import type_letters


class Desk(App[None]):
    """An editor alone, and what it has said."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.popup = Popup()
        self.editor = Editor(self.popup, history)
        self.sent: list[str] = []
        self.left = 0
        self.edited = 0

    def compose(self) -> ComposeResult:
        yield self.popup
        yield self.editor

    def on_mount(self) -> None:
        self.editor.focus()

    def on_editor_sent(self, event: Editor.Sent) -> None:
        self.sent.append(event.text)

    def on_editor_left(self) -> None:
        self.left += 1

    def on_editor_edited(self) -> None:
        self.edited += 1

    def on_editor_wanting(self, event: Editor.Wanting) -> None:
        wanted = event.wanted
        if wanted is None:
            self.popup.close()
        elif wanted.kind == "command":
            self.popup.open(wanted, complete_command(wanted.text))
        elif wanted.kind == "file":
            self.popup.open(wanted, (Choice("@src/", goes_on=True), Choice("@setup.py")))
        else:
            self.popup.open(wanted, (Choice("one"), Choice("two")))


@asynccontextmanager
async def open_editor(history: History | None = None) -> AsyncIterator[tuple[Desk, Pilot[None]]]:
    app = Desk(history or History())
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        yield app, pilot


# --- sending ----------------------------------------------------------------------------------


async def test_enter_sends_what_was_typed_and_empties_the_line() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "hello")
        await pilot.press("enter")
        assert (app.sent, app.editor.text) == (["hello"], "")


async def test_enter_sends_nothing_where_nothing_but_blanks_is_typed() -> None:
    async with open_editor() as (app, pilot):
        await pilot.press("enter", "space", "enter")
        assert (app.sent, app.editor.text) == ([], " ")


@pytest.mark.parametrize("key", ["alt+enter", "shift+enter", "ctrl+j"])
async def test_a_new_line_goes_into_the_message(key: str) -> None:
    async with open_editor() as (app, pilot):
        await pilot.press("a", key, "b", "enter")
        assert app.sent == ["a\nb"]


def read_keys(sequence: str) -> list[str]:
    driver.add_key_sequences()
    read = [event for event in XTermParser().feed(sequence) if isinstance(event, events.Key)]
    return [event.key for event in read]


@pytest.mark.parametrize(
    "sequence",
    ["\x1b\r", "\x1b[13;3u", "\x1b[27;3;13~", "\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;5u", "\n"],
)
def test_whatever_a_terminal_sends_for_a_new_line_is_understood(sequence: str) -> None:
    assert len(read_keys(sequence)) == 1
    assert read_keys(sequence)[0] in driver.NEW_LINE


@pytest.mark.parametrize("sequence", ["\r", "\x1bOM", "\x1b[13u"])
def test_enter_alone_is_no_new_line(sequence: str) -> None:
    assert read_keys(sequence) == ["enter"]


async def test_ctrl_d_leaves_at_an_empty_line_and_deletes_elsewhere() -> None:
    async with open_editor() as (app, pilot):
        await pilot.press("a", "b", "left", "ctrl+d")
        assert (app.left, app.editor.text) == (0, "a")
        await pilot.press("backspace", "ctrl+d")
        assert app.left == 1


async def test_a_letter_with_alt_is_no_letter() -> None:
    async with open_editor() as (app, pilot):
        await pilot.press("alt+x", "y")
        assert app.editor.text == "y"


async def test_the_editor_grows_with_its_lines_and_not_without_end() -> None:
    async with open_editor() as (app, pilot):
        heights = [app.editor.size.height]
        for _ in range(14):
            await pilot.press("ctrl+j")
        await pilot.pause()
        heights.append(app.editor.size.height)
        assert heights[0] == 1
        assert 5 < heights[1] <= 10


# --- pasting ----------------------------------------------------------------------------------


async def paste(app: Desk, pilot: Pilot[None], text: str) -> None:
    app.editor.post_message(events.Paste(text))
    await pilot.pause()


async def test_a_short_paste_is_seen_as_it_is() -> None:
    async with open_editor() as (app, pilot):
        await paste(app, pilot, "one\r\ntwo\rthree")
        assert app.editor.text == "one\ntwo\nthree"


async def test_five_thousand_lines_are_folded_and_sent_whole() -> None:
    text = "\n".join(f"line {number}" for number in range(5000))
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "see ")
        began = time.process_time()
        await paste(app, pilot, text)
        await type_letters(pilot, " ok")
        took = time.process_time() - began
        assert app.editor.text == "see [pasted 5,000 lines] ok"
        await pilot.press("enter")
        assert app.sent == [f"see {text} ok"]
        assert took < 5  # it would be minutes if every key went through all of it


async def test_two_pastes_of_the_same_size_are_told_apart() -> None:
    first, second = "a\n" * 40, "b\n" * 40
    async with open_editor() as (app, pilot):
        await paste(app, pilot, first)
        await paste(app, pilot, second)
        await pilot.press("enter")
        assert app.sent == [first + second]


async def test_what_drives_a_terminal_is_not_pasted() -> None:
    async with open_editor() as (app, pilot):
        await paste(app, pilot, "a\x1b[31mred\x1b]0;title\x07\u202eb")
        assert app.editor.text == "aredb"


# --- history ----------------------------------------------------------------------------------


async def test_up_fetches_what_was_sent_and_down_comes_back_to_the_draft() -> None:
    history = History()
    for text in ("first", "second"):
        history.keep(text)
    async with open_editor(history) as (app, pilot):
        await type_letters(pilot, "draft")
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(app.editor.text)
        assert seen == ["second", "first", "first", "second", "draft", "draft"]


async def test_keys_that_came_before_the_editor_was_there_fetch_history_too() -> None:
    history = History()
    history.keep("said before")
    async with open_editor(history) as (app, _pilot):
        app.editor.catch_up([events.Key("up", None), events.Key("x", "x")])
        assert app.editor.text == "said beforex"


async def test_up_moves_within_a_message_before_it_fetches_another() -> None:
    history = History()
    history.keep("old")
    async with open_editor(history) as (app, pilot):
        await pilot.press("a", "ctrl+j", "b", "up")
        assert app.editor.text == "a\nb"
        await pilot.press("up")
        assert app.editor.text == "old"


async def test_what_was_fetched_and_changed_is_sent_as_a_new_message() -> None:
    history = History()
    history.keep("old")
    async with open_editor(history) as (app, pilot):
        await pilot.press("up", "x", "enter")
        assert app.sent == ["oldx"]


async def test_a_command_from_history_opens_no_choices() -> None:
    history = History()
    history.keep("/mod")
    async with open_editor(history) as (app, pilot):
        await pilot.press("up")
        await pilot.pause()
        assert not app.popup.is_open
        await pilot.press("enter")
        assert app.sent == ["/mod"]


def test_history_is_private_and_there_in_the_next_session(tmp_path: Path) -> None:
    path = history_file(tmp_path / "state", "telegram:../x")
    assert path.parent == tmp_path / "state" / "history"
    kept = History(path)
    for text in ("one", "two\nlines", "two\nlines", "  ", "x" * (LONGEST + 1)):
        kept.keep(text)
    later = History(path)
    later.load()
    assert [later.older(""), later.older(""), later.older("")] == ["two\nlines", "one", None]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_history_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f'"{number}"\n' for number in range(5 * KEPT)), encoding="utf-8")
    history = History(path)
    history.load()
    assert len(path.read_text(encoding="utf-8").splitlines()) == KEPT
    assert history.older("") == str(5 * KEPT - 1)


@given(st.lists(st.text(st.characters(codec=None), max_size=30), max_size=8))
def test_any_text_can_be_kept(texts: list[str]) -> None:
    history = History()
    for text in texts:
        history.keep(text)
    found: list[str] = []
    while (older := history.older("")) is not None:
        found.append(older)
    wanted = [text for text in texts if text.strip()]
    assert found[::-1] == [
        text for place, text in enumerate(wanted) if not place or wanted[place - 1] != text
    ]


def test_a_broken_history_is_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'"good"\n{broken\n\xff\xfe\n42\n"half')
    history = History(path)
    history.load()
    assert (history.older(""), history.older("")) == ("good", None)
    nowhere = History(tmp_path / "history.jsonl" / "below a file")
    nowhere.load()
    nowhere.keep("text")
    assert nowhere.older("") == "text"


# --- choices ----------------------------------------------------------------------------------


async def test_tab_takes_the_first_choice() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "/the")
        assert not app.popup.is_open
        await pilot.press("ctrl+u")
        await type_letters(pilot, "/he")
        assert app.popup.is_open
        await pilot.press("tab")
        assert app.editor.text == "/help "


async def test_enter_takes_what_is_half_typed_and_sends_what_is_whole() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "/mod")
        await pilot.press("enter")
        assert (app.sent, app.editor.text) == ([], "/model ")
        await pilot.press("enter")
        assert app.sent == ["/model "]
        await type_letters(pilot, "/stop")
        await pilot.press("enter")
        assert app.sent[1:] == ["/stop"]


async def test_enter_runs_a_half_typed_command_that_nothing_can_follow() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "/stat")
        await pilot.press("enter")
        assert (app.sent, app.editor.text) == (["/status "], "")


async def test_down_and_up_choose_and_go_round() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "/mo")
        assert app.popup.place == 0
        await pilot.press("up")
        assert app.popup.place == len(app.popup.choices) - 1
        await pilot.press("down", "down", "tab")
        assert app.editor.text == "/mode "


async def test_esc_closes_the_choices_and_the_same_word_opens_none() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "/he")
        await pilot.press("escape")
        assert not app.popup.is_open
        await pilot.press("enter")
        assert app.sent == ["/he"]


async def test_an_argument_that_nobody_began_is_not_taken_by_enter() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "/model ")
        assert app.popup.is_open
        await pilot.press("enter")
        assert app.sent == ["/model "]


async def test_an_argument_is_taken_and_then_sent() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "/model t")
        await pilot.press("down", "enter")
        assert app.editor.text == "/model two"
        await pilot.press("enter")
        assert app.sent == ["/model two"]


async def test_a_file_is_put_in_where_it_was_named_and_a_directory_goes_on() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "look at @se here")
        await pilot.press(*["left"] * 5)
        await pilot.press("t")
        await pilot.pause()
        assert app.popup.is_open
        await pilot.press("tab")
        await pilot.pause()
        assert app.editor.text == "look at @src/ here"
        assert app.popup.is_open


async def test_ctrl_x_ctrl_e_asks_for_the_editor_and_ctrl_underscore_undoes() -> None:
    async with open_editor() as (app, pilot):
        await type_letters(pilot, "ab")
        await pilot.press("ctrl+x", "ctrl+e")
        assert app.edited == 1
        await pilot.press("ctrl+e", "ctrl+x", "c", "ctrl+e")
        assert app.edited == 1
        assert app.editor.text == "abc"
        await pilot.press("ctrl+w")
        assert app.editor.text == ""
        await pilot.press("ctrl+underscore")
        assert app.editor.text == "abc"


def test_visual_names_the_editor_then_editor_then_vi() -> None:
    assert find_editor({"VISUAL": "code --wait", "EDITOR": "nano"}) == ["code", "--wait"]
    assert find_editor({"VISUAL": " ", "EDITOR": "nano"}) == ["nano"]
    assert find_editor({}) == ["vi"]
    with pytest.raises(InvalidInput, match="VISUAL or EDITOR can't be read"):
        find_editor({"EDITOR": "'open"})
