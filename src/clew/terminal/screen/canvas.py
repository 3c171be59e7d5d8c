"""The canvas: draws a list of blocks, and scrolls it.

It follows the end until the person scrolls away, keeps their place when something above changes,
and draws text that streams only a few times a second. `Transcript` fills the list.
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

from clew.terminal.screen.block_list import BlockList, Spot
from clew.terminal.screen.blocks import Block
from clew.terminal.screen.find import Search, find_spans, paint
from clew.terminal.screen.styles import COLOURS, RULES, Palette, get_styles

FRAME: Final = 1 / 11
"""Seconds between two drawings of text that streams; longer if they take long."""

EFFORT: Final = 5
"""At most 1/EFFORT of the time is spent on drawing text that streams."""

MARGIN: Final = 2
"""Columns left of the text."""

ENOUGH: Final = 3
"""Screens full of blocks that are laid out at least."""

STEP: Final = 8
"""Blocks that are laid out at once when the person scrolls near them."""


class Canvas(ScrollView):
    """Draws and scrolls blocks."""

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

    def __init__(self, *, verbose: Callable[[], bool]) -> None:
        super().__init__()
        self._verbose = verbose
        self._was_verbose = verbose()
        self._blocks = BlockList()
        self._selected: Block | None = None
        self._search: Search | None = None
        self.unloaded = 0
        """Messages that are older than the blocks."""
        self._follows = True
        self._has_news = False
        self._palette: Palette | None = None
        self._is_palette_old = False
        self._width = 0
        self._moves = False
        self._timer: Timer | None = None
        self._due = 0.0

    @property
    def allow_select(self) -> bool:
        """Text can be selected with the mouse."""
        return True

    def near_top(self) -> None:
        """Called when little is left above."""

    def near_end(self) -> None:
        """Called when little is left below."""

    # --- laying out -----------------------------------------------------------------------------

    def get_palette(self) -> Palette | None:
        """The palette of the theme; None while there is no room to draw."""
        width = self.scrollable_content_region.width
        if width <= MARGIN or not self.is_attached:
            return None
        if self._palette is None or self._is_palette_old:
            self._is_palette_old = False
            styles = get_styles(self.rich_style, self.get_component_rich_style)
            if self._palette is None or styles != self._palette.styles:
                self._palette = Palette(styles)
                self._blocks.change_all()
        if width != self._width or self._was_verbose != self._verbose():
            self._width, self._was_verbose = width, self._verbose()
            self._blocks.change_all()
        return self._palette

    def draw(self, place: Spot | None = None) -> None:
        """Lay out what has changed and show it; `place` is what stays at the top of the view."""
        if self._timer is not None:
            self._timer.pause()
        if place is None and not self._follows and self._was_verbose != self._verbose():
            place = self.get_place()
        palette = self.get_palette()
        if palette is None:
            return
        started = time.monotonic()
        first = self._settle(palette)
        if first is None and place is None:
            return
        if self._blocks.earlier or self._blocks.later:
            place = self._fill(palette, place)
        self._show_from(first or 0, place)
        now = time.monotonic()
        self._due = now + max(FRAME * 0.9, EFFORT * (now - started))

    def _fill(self, palette: Palette, place: Spot | None) -> Spot | None:
        """Lay out blocks until there are some above and below the visible ones.

        Returns the place to keep, if blocks were added.
        """
        blocks, height = self._blocks, self.size.height
        anchor = place
        if not self._follows and (place is None or blocks.find_lines(place.block) is None):
            anchor = self.get_place()
        while blocks.earlier and (
            blocks.height < ENOUGH * height or self._get_top(anchor) < height
        ):
            blocks.pull(STEP)
            self._settle(palette)
            place = anchor
        while anchor and blocks.later and blocks.height - self._get_top(anchor) < ENOUGH * height:
            blocks.pull_later(STEP)
            self._settle(palette)
        return place

    def _get_top(self, place: Spot | None) -> int:
        """The line at the top of the view, once it is at that place, or at the end."""
        lines = None if place is None else self._blocks.find_lines(place.block)
        if place is None or lines is None:
            return max(0, self._blocks.height - self.size.height)
        return lines.start + round(place.line * len(lines) / max(1, place.of))

    def _show_from(self, first: int, place: Spot | None) -> None:
        scrolled = self.scroll_offset.y
        self.virtual_size = Size(self._width, self._blocks.height)
        if place is not None:
            self._go_to(place)
        elif self._follows:
            self.move_to(self.max_scroll_y)
        elif self._blocks.height > scrolled + self.size.height:
            self._has_news = True
            first = min(first, scrolled + self.size.height - 1)
        if self.scroll_offset.y == scrolled and place is None:
            top = max(0, first - scrolled)
            self.refresh(Region(0, top, self.size.width, max(0, self.size.height - top)))
        else:
            self.refresh()

    def draw_soon(self) -> None:
        """Draw within a fraction of a second, for text that streams."""
        if not self.is_attached:
            return
        if self._timer is None:
            self._timer = self.set_interval(FRAME, self._tick, pause=True)
        self._timer.resume()

    def _tick(self) -> None:
        if time.monotonic() >= self._due:
            self.draw()

    def _settle(self, palette: Palette) -> int | None:
        self._blocks.count_gap(self.unloaded)
        return self._blocks.settle(palette, self._width - MARGIN, verbose=self._was_verbose)

    # --- places ---------------------------------------------------------------------------------

    def get_place(self) -> Spot | None:
        """What is at the top of the view."""
        return self._blocks.find_nearest(self.scroll_offset.y)

    def move_to(self, y: float) -> None:
        """Scroll there at once; whether the end is followed stays as it is."""
        self._moves = True
        try:
            self.scroll_to(y=y, animate=False, force=True, immediate=True)
        finally:
            self._moves = False

    def reveal(self, block: Block, line: int = 0) -> None:
        """Scroll as little as possible until a block's line is seen, and as much more as fits."""
        lines = self._blocks.find_lines(block)
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
        if self._blocks.find_lines(place.block) is not None:
            self.move_to(self._get_top(place))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Scrolling away stops following; coming back to the end starts it again."""
        super().watch_scroll_y(old_value, new_value)
        if self._moves:
            return
        self._follows = round(new_value) >= self.max_scroll_y and not self._blocks.later
        if self._follows:
            self._has_news = False
        if new_value < self.size.height and (new_value < old_value or new_value <= 0):
            self.near_top()
        elif new_value + 2 * self.size.height > self._blocks.height:
            self.near_end()

    def on_resize(self, event: events.Resize) -> None:
        """Draw everything again; the block at the top stays there."""
        del event
        place = None if self._follows else self.get_place()
        if self.scrollable_content_region.width != self._width:
            self._blocks.open_at(None if place is None else place.block, STEP)
        self.draw(place)
        if self._follows:
            self.move_to(self.max_scroll_y)

    def notify_style_update(self) -> None:
        """The theme may have changed."""
        super().notify_style_update()
        self._is_palette_old = True
        if self._palette is not None:
            self.call_later(self._recolour)

    def _recolour(self) -> None:
        place = None if self._follows else self.get_place()
        if self.get_palette() is not None and self._blocks.is_changed:
            self.draw(place)

    # --- lines ----------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """A visible line."""
        palette, width = self._palette, self.size.width
        if palette is None:
            return Strip.blank(width, self.rich_style)
        line = self._compose_line(y + self.scroll_offset.y, palette).crop_extend(
            0, width, palette.base
        )
        if self._has_hint and y == self.size.height - 1:
            hint = Strip([Segment(" ↓ new " if self._has_news else " ↓ more ", palette["hint"])])
            room = max(0, width - hint.cell_length - 1)
            line = Strip.join([line.crop(0, room), hint, line.crop(room + hint.cell_length)])
        return line

    @property
    def _has_hint(self) -> bool:
        """Whether to say that there is more below."""
        return not self._follows and (self._has_news or bool(self._blocks.later))

    def _compose_line(self, y: int, palette: Palette) -> Strip:
        spot, line = self._blocks.find(y), self._blocks.get_strip(y)
        if spot is None or line is None:
            if y == 0 and self._blocks.gap.count:
                gap = self._blocks.gap.lines(palette, self._width - MARGIN, verbose=False)
                return Strip.join([Strip([Segment(" " * MARGIN, palette.base)]), gap[0]])
            return Strip.blank(self._width, palette.base)
        block = spot.block
        line = self._highlight(block, line, y, palette).apply_offsets(0, y)
        mark, style = block.mark
        if block is self._selected and self.has_focus:
            mark, style = "▌", "cursor"
        front = (
            palette[style] if block.ground is None else palette.over(block.ground, style or "dim")
        )
        whole = Strip.join([Strip([Segment(mark.ljust(MARGIN), front)], MARGIN), line])
        if block.ground is None:
            return whole
        return whole.extend_cell_length(self._width, palette[block.ground])

    def _highlight(self, block: Block, line: Strip, y: int, palette: Palette) -> Strip:
        if self._search is not None:
            style = palette["hit-now" if block is self._search.current else "hit"]
            line = paint(line, find_spans(line.text, self._search.needle), style)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            start, end = span
            chosen = self.screen.get_component_rich_style("screen--selection").background_style
            line = paint(line, [(start, len(line.text) if end == -1 else end)], chosen)
        return line

    # --- selecting with the mouse ---------------------------------------------------------------

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, without the margin."""
        strips = (self._blocks.get_strip(y) for y in range(self._blocks.height))
        text = "\n".join("" if strip is None else strip.text.rstrip() for strip in strips)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw another selection."""
        del selection
        self.refresh()
