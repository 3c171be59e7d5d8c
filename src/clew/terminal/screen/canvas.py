"""The canvas: a pile of blocks that can be scrolled, and what of it is drawn when.

It follows the end while the person has not scrolled away, keeps their place when something above
changes, and draws what streams only a few times in a second. What the blocks are about is the
business of `Transcript`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Final

from rich.segment import Segment
from textual import events
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from clew.terminal.screen.block_list import Pile, Spot
from clew.terminal.screen.blocks import Block
from clew.terminal.screen.find import Search, find_spans, paint
from clew.terminal.screen.styles import COLOURS, RULES, Ink, get_styles

FRAME: Final = 1 / 11
"""Seconds between two pictures of what streams; longer if they are hard to draw."""

EFFORT: Final = 5
"""Of the time, at most one part in so many goes into drawing what streams."""

MARGIN: Final = 2
"""Columns left of the text."""

ENOUGH: Final = 3
"""Screens that are laid out at least, if there are so many."""

STEP: Final = 8
"""Blocks that are laid out in one go when somebody comes near."""


class Canvas(ScrollView):
    """Blocks on a screen."""

    DEFAULT_CSS = f"""
    Canvas {{
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size-vertical: 1;
        scrollbar-color: $panel;
        scrollbar-color-hover: $primary;
        scrollbar-color-active: $primary;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        {RULES}
    }}
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"transcript--{name}" for name in COLOURS}

    def __init__(
        self,
        *,
        verbose: Callable[[], bool],
        id: str | None = None,  # noqa: A002  # Textual's name for it
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._verbose = verbose
        self._was_verbose = verbose()
        self._pile = Pile()
        self._selected: Block | None = None
        self._search: Search | None = None
        self.unloaded = 0
        """Messages that are earlier than those the pile has."""
        self._follows = True
        self._has_news = False
        self._ink: Ink | None = None
        self._is_ink_old = False
        self._width = 0
        self._moves = False
        self._timer: Timer | None = None
        self._due = 0.0

    @property
    def allow_select(self) -> bool:
        """Text can be marked with the mouse."""
        return True

    def near_top(self) -> None:
        """Somebody scrolls up, and little is left above."""

    def near_end(self) -> None:
        """Somebody scrolls down, and little is left below."""

    # --- laying out -----------------------------------------------------------------------------

    def get_ink(self) -> Ink | None:
        """The theme's colours, None while there is no room to draw in."""
        width = self.scrollable_content_region.width
        if width <= MARGIN or not self.is_attached:
            return None
        if self._ink is None or self._is_ink_old:
            self._is_ink_old = False
            styles = get_styles(self.rich_style, self.get_component_rich_style)
            if self._ink is None or styles != self._ink.styles:
                self._ink = Ink(styles)
                self._pile.change_all()
        if width != self._width or self._was_verbose != self._verbose():
            self._width, self._was_verbose = width, self._verbose()
            self._pile.change_all()
        return self._ink

    def draw(self, place: Spot | None = None) -> None:
        """Lay out what has changed and show it; `place` is what stays at the top of the view."""
        if self._timer is not None:
            self._timer.pause()
        if place is None and not self._follows and self._was_verbose != self._verbose():
            place = self.get_place()
        ink = self.get_ink()
        if ink is None:
            return
        started = time.monotonic()
        first = self._settle(ink)
        if first is None and place is None:
            return
        if self._pile.earlier or self._pile.later:
            place = self._fill(ink, place)
        self._show_from(first or 0, place)
        now = time.monotonic()
        self._due = now + max(FRAME * 0.9, EFFORT * (now - started))

    def _fill(self, ink: Ink, place: Spot | None) -> Spot | None:
        """Lay blocks out until there is something above and below what is seen.

        Returns the place to keep, if something came.
        """
        pile, height = self._pile, self.size.height
        anchor = place
        if not self._follows and (place is None or pile.find_lines(place.block) is None):
            anchor = self.get_place()
        while pile.earlier and (pile.height < ENOUGH * height or self._get_top(anchor) < height):
            pile.pull(STEP)
            self._settle(ink)
            place = anchor
        while anchor and pile.later and pile.height - self._get_top(anchor) < ENOUGH * height:
            pile.pull_later(STEP)
            self._settle(ink)
        return place

    def _get_top(self, place: Spot | None) -> int:
        """The line at the top of the view, once it is at that place, or at the end."""
        lines = None if place is None else self._pile.find_lines(place.block)
        if place is None or lines is None:
            return max(0, self._pile.height - self.size.height)
        return lines.start + round(place.line * len(lines) / max(1, place.of))

    def _show_from(self, first: int, place: Spot | None) -> None:
        scrolled = self.scroll_offset.y
        self.virtual_size = Size(self._width, self._pile.height)
        if place is not None:
            self._go_to(place)
        elif self._follows:
            self.move_to(self.max_scroll_y)
        elif self._pile.height > scrolled + self.size.height:
            self._has_news = True
            first = min(first, scrolled + self.size.height - 1)
        if self.scroll_offset.y == scrolled and place is None:
            top = max(0, first - scrolled)
            self.refresh(Region(0, top, self.size.width, max(0, self.size.height - top)))
        else:
            self.refresh()

    def draw_soon(self) -> None:
        """What streams is drawn a few times in a second."""
        if not self.is_attached:
            return
        if self._timer is None:
            self._timer = self.set_interval(FRAME, self._tick, pause=True)
        self._timer.resume()

    def _tick(self) -> None:
        if time.monotonic() >= self._due:
            self.draw()

    def _settle(self, ink: Ink) -> int | None:
        self._pile.count_gap(self.unloaded)
        return self._pile.settle(ink, self._width - MARGIN, verbose=self._was_verbose)

    # --- places ---------------------------------------------------------------------------------

    def get_place(self) -> Spot | None:
        """What is at the top of the view."""
        return self._pile.find_nearest(self.scroll_offset.y)

    def move_to(self, y: float) -> None:
        """Scroll there at once; whether the end is followed stays as it is."""
        self._moves = True
        try:
            self.scroll_to(y=y, animate=False, force=True, immediate=True)
        finally:
            self._moves = False

    def reveal(self, block: Block, line: int = 0) -> None:
        """Scroll as little as possible until a block's line is seen, and as much more as fits."""
        lines = self._pile.find_lines(block)
        if lines is None:
            return
        y, height = lines.start + line, self.size.height
        if y < self.scroll_offset.y or lines.stop - lines.start > height:
            self.scroll_to(y=max(0, y - 1), animate=False, force=True)
        elif lines.stop > self.scroll_offset.y + height:
            self.scroll_to(y=lines.stop - height, animate=False, force=True)

    def show_line(self, y: int) -> None:
        """Scroll so that a line is seen, with something around it."""
        top, height = self.scroll_offset.y, self.size.height
        if not top <= y < top + height:
            self.scroll_to(y=max(0, y - height // 3), animate=False, force=True)

    def _go_to(self, place: Spot) -> None:
        if self._pile.find_lines(place.block) is not None:
            self.move_to(self._get_top(place))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scrolling away stops following; coming back to the end starts it again."""
        super().watch_scroll_y(old_value, new_value)
        if self._moves:
            return
        self._follows = round(new_value) >= self.max_scroll_y and not self._pile.later
        if self._follows:
            self._has_news = False
        if new_value < self.size.height and (new_value < old_value or new_value <= 0):
            self.near_top()
        elif new_value + 2 * self.size.height > self._pile.height:
            self.near_end()

    def on_resize(self, event: events.Resize) -> None:
        """Everything is drawn anew, and the block at the top stays there."""
        del event
        place = None if self._follows else self.get_place()
        if self.scrollable_content_region.width != self._width:
            self._pile.open_at(None if place is None else place.block, STEP)
        self.draw(place)
        if self._follows:
            self.move_to(self.max_scroll_y)

    def notify_style_update(self) -> None:
        """Another theme, perhaps."""
        super().notify_style_update()
        self._is_ink_old = True
        if self._ink is not None:
            self.call_later(self._recolour)

    def _recolour(self) -> None:
        place = None if self._follows else self.get_place()
        if self.get_ink() is not None and self._pile.is_changed:
            self.draw(place)

    # --- lines ----------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """A line of what is seen."""
        ink, width = self._ink, self.size.width
        if ink is None:
            return Strip.blank(width, self.rich_style)
        line = self._compose_line(y + self.scroll_offset.y, ink).crop_extend(0, width, ink.base)
        if self._has_hint and y == self.size.height - 1:
            hint = Strip([Segment(" ↓ new " if self._has_news else " ↓ more ", ink["hint"])])
            room = max(0, width - hint.cell_length - 1)
            line = Strip.join([line.crop(0, room), hint, line.crop(room + hint.cell_length)])
        return line

    @property
    def _has_hint(self) -> bool:
        """Whether something below is worth saying."""
        return not self._follows and (self._has_news or bool(self._pile.later))

    def _compose_line(self, y: int, ink: Ink) -> Strip:
        spot, line = self._pile.find(y), self._pile.get_strip(y)
        if spot is None or line is None:
            if y == 0 and self._pile.gap.count:
                gap = self._pile.gap.lines(ink, self._width - MARGIN, verbose=False)
                return Strip.join([Strip([Segment(" " * MARGIN, ink.base)]), gap[0]])
            return Strip.blank(self._width, ink.base)
        block = spot.block
        line = self._highlight(block, line, y, ink).apply_offsets(0, y)
        mark, style = block.mark
        if block is self._selected and self.has_focus:
            mark, style = "▌", "cursor"
        front = ink[style] if block.ground is None else ink.over(block.ground, style or "dim")
        whole = Strip.join([Strip([Segment(mark.ljust(MARGIN), front)], MARGIN), line])
        if block.ground is None:
            return whole
        return whole.extend_cell_length(self._width, ink[block.ground])

    def _highlight(self, block: Block, line: Strip, y: int, ink: Ink) -> Strip:
        if self._search is not None:
            style = ink["hit-now" if block is self._search.current else "hit"]
            line = paint(line, find_spans(line.text, self._search.needle), style)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            start, end = span
            chosen = self.screen.get_component_rich_style("screen--selection").background_style
            line = paint(line, [(start, len(line.text) if end == -1 else end)], chosen)
        return line

    # --- marking with the mouse -----------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that is marked, without the margin."""
        strips = (self._pile.get_strip(y) for y in range(self._pile.height))
        text = "\n".join("" if strip is None else strip.text.rstrip() for strip in strips)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """More or less is marked."""
        del selection
        self.refresh()
