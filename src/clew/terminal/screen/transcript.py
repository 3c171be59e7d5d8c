"""The transcript: the messages of a session, and what keys and mouse do with them.

`load` gets messages, `show` takes events; it knows neither the store nor the runtime. `canvas`
draws the blocks, `event_blocks` makes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message as Posted

from clew.api.sessions import MessagePage
from clew.core.live_events import Event
from clew.core.session import Session
from clew.core.turn import place_unfinished
from clew.errors import ClewError
from clew.terminal.screen.block_list import BlockList, Spot
from clew.terminal.screen.blocks import Block, NoteBlock, ReplyBlock
from clew.terminal.screen.canvas import STEP, Canvas
from clew.terminal.screen.event_blocks import BlockBuilder, list_blocks
from clew.terminal.screen.find import Search, find_spans

Load = Callable[[int | None, int], Awaitable[MessagePage]]
"""The newest messages before a seq (None: of all), so many at most, in their order."""

PAGE: Final = 60
"""Messages that are loaded at once."""

SEARCHED: Final = 20_000
"""Messages that a search reads at most, in pages of `SEARCH_PAGE`."""

SEARCH_PAGE: Final = 500


class Transcript(Canvas):
    """A session's messages, from the newest back, and what happens now."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "select(-1)", "Block above", show=False),
        Binding("down", "select(1)", "Block below", show=False),
        Binding("enter,space", "fold", "Fold"),
        Binding("c,y", "copy", "Copy the block"),
        Binding("n", "find(1)", "Next hit", show=False),
        Binding("N", "find(-1)", "Hit before", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "first", "Oldest that is loaded", show=False),
        Binding("end", "follow", "Newest"),
    ]

    @dataclass
    class Copied(Posted):
        """A block's text, for the clipboard."""

        text: str

    def __init__(self, load: Load, *, verbose: Callable[[], bool]) -> None:
        super().__init__(verbose=verbose)
        self._load = load
        self._builder = BlockBuilder(self._blocks)
        self._opened = 0
        self._oldest: int | None = None
        self._oldest_turn: str | None = None
        self._is_whole = True
        self._loading = asyncio.Lock()

    # --- what is shown --------------------------------------------------------------------------

    async def open(self, session: Session | None) -> None:
        """Show a session's newest messages in place of everything else."""
        self._opened += 1
        opened = self._opened
        page = MessagePage((), 0) if session is None else await self._load(None, PAGE)
        if opened != self._opened:
            return  # another session was opened since
        self._blocks = BlockList()
        self._search = self._selected = None
        self._has_news, self._follows = False, True
        self._oldest = self._oldest_turn = None
        self.unloaded = 0 if session is None else session.message_count
        self._take_page(page, PAGE)
        last = page.messages[-1].seq if page.messages else 0
        self._builder = BlockBuilder(self._blocks, last, self._blocks.earlier)
        self.draw()
        self.refresh()

    def show(self, event: Event) -> None:
        """Show an event of the session."""
        if self._builder.show(event):
            self.draw()
        else:
            self.draw_soon()

    def sent(self, text: str) -> None:
        """The person's message, before it is committed."""
        self._builder.sent(text)
        self.action_follow()

    def note(self, text: str, style: str | None = "dim") -> None:
        """A line beside the conversation; style is dim, warning, error or None."""
        self._blocks.add(NoteBlock(text, style))
        self.draw()

    def tell(self, text: str) -> None:
        """What a command answers, laid out already."""
        self._blocks.add(ReplyBlock(text))
        self.action_follow()

    # --- what is earlier ------------------------------------------------------------------------

    def _take_page(self, page: MessagePage, limit: int) -> None:
        """Add older messages above the others; they are not drawn yet."""
        messages = page.messages
        # A turn that continues on the page below has not ended here.
        stopped = [each for each in page.unfinished if each.id != self._oldest_turn]
        self._is_whole = len(messages) < limit
        if not self._is_whole:
            # Results whose calls are on the page before come with that page.
            start = next((at for at, each in enumerate(messages) if each.role != "tool"), 0)
            messages = messages[start:]
        if messages:
            self._oldest, self._oldest_turn = messages[0].seq, messages[0].turn_id
        self.unloaded = 0 if self._is_whole else max(0, self.unloaded - len(messages))
        self._blocks.put_earlier(list_blocks(messages, place_unfinished(stopped, messages)))

    async def _load_earlier(self, limit: int = PAGE) -> bool:
        """Get one more page; False if there is none."""
        opened = self._opened
        async with self._loading:
            if self._is_whole or opened != self._opened:
                return False
            try:
                page = await self._load(self._oldest, limit)
            except ClewError as error:
                self._is_whole = True
                self.note(f"Earlier messages can't be shown: {error}", "error")
                return False
            if opened != self._opened:
                return False
            self._take_page(page, limit)
            return True

    def near_top(self) -> None:
        """Load and draw what is above."""
        if self._blocks.earlier or not self._is_whole:
            self.run_worker(self._look_back(), group="earlier")

    async def _look_back(self) -> None:
        if not self._blocks.earlier and not await self._load_earlier():
            return
        if self.scroll_offset.y < self.size.height:
            place = self.get_place()
            self._blocks.pull(STEP)
            self.screen.clear_selection()  # its lines have moved
            self.draw(place)

    def near_end(self) -> None:
        """Draw what is below."""
        if self._blocks.later:
            self._blocks.pull_later(STEP)
            self.draw(self.get_place())

    # --- finding --------------------------------------------------------------------------------

    async def find(self, text: str) -> int:
        """Search for words, also in older messages, and go to the newest hit. Returns how many.

        Hits are blocks; an empty text ends the search.
        """
        self._search = None
        if text.strip():
            while self._blocks.count_messages() < SEARCHED:
                if not await self._load_earlier(SEARCH_PAGE):
                    break
            self._search = Search(text)
            await self._search.look_through(self._blocks.list_all())
            self.action_find(-1)
        self.draw()
        self.refresh()
        return len(self._search.hits) if self._search is not None else 0

    def action_find(self, by: int) -> None:
        """Go to the hit below or above; after the last comes the first."""
        hit = self._search.step(by) if self._search is not None else None
        if hit is None or self._search is None:
            return
        if hit.folds and hit.is_folded(verbose=self._verbose()):
            hit.folded = False
            self._blocks.change(hit)
        self._bring(hit)
        self._selected = hit
        lines = self._blocks.find_lines(hit) or range(0)
        for at, y in enumerate(lines):
            strip = self._blocks.get_strip(y)
            if strip is not None and any(find_spans(strip.text, self._search.needle)):
                self.show_line(lines.start + at)
                break
        else:
            self.reveal(hit)
        self.refresh()

    def _bring(self, block: Block) -> None:
        """Lay a block out, wherever it is."""
        self._follows = False
        if self._blocks.find_index(block) is None:
            self._blocks.open_at(block, STEP)
            self.draw(Spot(block, 0, 1))
        else:
            self.draw(self.get_place())

    # --- keys and mouse -------------------------------------------------------------------------

    def action_select(self, by: int) -> None:
        """Select the block above or below."""
        blocks = self._blocks.blocks
        index = None if self._selected is None else self._blocks.find_index(self._selected)
        if index is None:
            edge = self.scroll_offset.y + (self.size.height - 1 if by < 0 else 0)
            spot = self._blocks.find_nearest(edge)
            chosen = None if spot is None else spot.block
        else:
            chosen = blocks[min(max(0, index + by), len(blocks) - 1)]
        if chosen is not None:
            self._selected = chosen
            self.reveal(chosen)
            self.refresh()

    def action_fold(self) -> None:
        """Fold or unfold the selected block, or the last visible one."""
        block = self._get_selected()
        if block is None or not block.folds:
            return
        block.folded = not block.is_folded(verbose=self._verbose())
        self._blocks.change(block)
        self.draw(self.get_place())
        self._follows = self.scroll_offset.y >= self.max_scroll_y and not self._blocks.later

    def action_copy(self) -> None:
        """Copy the text of the selected block, or of the last visible one."""
        block = self._get_selected()
        if block is not None and block.text:
            self.post_message(self.Copied(block.text))

    def _get_selected(self) -> Block | None:
        if self._selected is None:
            self.action_select(-1)
        return self._selected

    def action_page(self, by: int) -> None:
        """A page up or down, at once."""
        step = max(1, self.size.height - 2)
        self.scroll_to(y=self.scroll_offset.y + by * step, animate=False, force=True)

    def action_first(self) -> None:
        """To the top of what is loaded."""
        self.scroll_to(y=0, animate=False, force=True)

    def action_follow(self) -> None:
        """To the end, and stay there."""
        self._follows, self._has_news = True, False
        if self._blocks.later:
            self._blocks.open_at(None, STEP)
        self.draw()
        self.move_to(self.max_scroll_y)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Select a block; a click on its first line folds it."""
        if self._has_hint and event.y == self.size.height - 1:
            self.action_follow()
            return
        spot = self._blocks.find(event.y + self.scroll_offset.y)
        if spot is None or self.text_selection is not None:
            return
        self._selected = spot.block
        if spot.line == 0:
            self.action_fold()
        self.refresh()
