"""The list of blocks of a conversation, and where each of their lines is on the canvas."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import msgspec
from textual.strip import Strip

from clew.terminal.screen.blocks import Block, GapBlock
from clew.terminal.screen.styles import Palette


class Spot(msgspec.Struct, frozen=True):
    """A line of a block."""

    block: Block
    line: int
    of: int


class BlockList:
    """The blocks of one conversation."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.earlier: list[Block] = []
        self.later: list[Block] = []
        self.gap = GapBlock()
        self.height = 0
        self._counted = (0, 0)
        # The last layout, which is on the screen; `blocks` may have changed since.
        self._laid: list[Block] = []
        self._tops: list[int] = []
        self._lines: list[list[Strip]] = []
        self._dirty: int | None = None

    # --- changing -------------------------------------------------------------------------------

    def add(self, block: Block, *, before: Block | None = None) -> None:
        """Add a block, at the end or before another."""
        if self.later:
            self.later.append(block)
            return
        found = None if before is None else self.find_index(before)
        index = len(self.blocks) if found is None else found
        self.blocks.insert(index, block)
        self._mark_changed(index)

    def drop(self, block: Block) -> None:
        """Remove a block."""
        if (index := self.find_index(block)) is not None:
            del self.blocks[index]
            self._mark_changed(index)
        else:
            self.later = [each for each in self.later if each is not block]

    def change(self, block: Block) -> None:
        """Draw a block again."""
        block.changed()
        if (index := self.find_index(block)) is not None:
            self._mark_changed(index)

    def change_all(self) -> None:
        """Draw all blocks again: width, colours or folding have changed."""
        self._mark_changed(0)

    def put_earlier(self, blocks: Iterable[Block]) -> None:
        """Add older blocks, which are not laid out yet."""
        self.earlier[:0] = blocks

    def pull(self, count: int) -> None:
        """Lay out some more of the earlier ones, the newest of them."""
        if taken := self.earlier[-count:]:
            del self.earlier[-count:]
            self.blocks[:0] = taken
            self._mark_changed(0)

    def pull_later(self, count: int) -> None:
        """Lay out some more of the later ones, the oldest of them."""
        if taken := self.later[:count]:
            del self.later[:count]
            self._mark_changed(len(self.blocks))
            self.blocks += taken

    def open_at(self, block: Block | None, around: int) -> None:
        """Lay out only the blocks around one, or the newest ones."""
        every = self.list_all()
        index = len(every) if block is None else _find(every, block)
        if index is None:
            return
        start, end = max(0, index - around), min(len(every), index + around)
        self.earlier, self.blocks, self.later = every[:start], every[start:end], every[end:]
        self._mark_changed(0)

    def count_gap(self, unloaded: int) -> None:
        """Say how many messages are earlier than what is laid out."""
        if len(self.earlier) != self._counted[0]:
            self._counted = (len(self.earlier), _count(self.earlier))
        count = unloaded + self._counted[1]
        if count != self.gap.count:
            if not (count and self.gap.count):
                self._mark_changed(0)
            self.gap.count = count
            self.gap.changed()

    def count_messages(self) -> int:
        """How many messages have blocks."""
        return _count(self.list_all())

    def list_all(self) -> list[Block]:
        """Every block, laid out or not."""
        return [*self.earlier, *self.blocks, *self.later]

    @property
    def is_changed(self) -> bool:
        """Whether something has to be laid out again."""
        return self._dirty is not None

    def _mark_changed(self, index: int) -> None:
        self._dirty = index if self._dirty is None else min(self._dirty, index)

    # --- laying out -----------------------------------------------------------------------------

    def settle(self, palette: Palette, width: int, *, verbose: bool) -> int | None:
        """Draw what has changed. Returns the first line that may differ, None if none does."""
        if self._dirty is None:
            return None
        start, self._dirty = self._dirty, None
        del self._laid[start:], self._tops[start:], self._lines[start:]
        above = 2 if self.gap.count else 0
        y = self._tops[-1] + len(self._lines[-1]) if start else above
        first = y
        for index in range(start, len(self.blocks)):
            lines = self.blocks[index].lines(palette, width, verbose=verbose)
            y += self._space(index) if lines else 0
            self._laid.append(self.blocks[index])
            self._tops.append(y)
            self._lines.append(lines)
            y += len(lines)
        self.height = y
        return first if start else 0

    def _space(self, index: int) -> int:
        if index == 0:
            return 0
        before, block = self.blocks[index - 1], self.blocks[index]
        return 0 if block.is_compact and type(block) is type(before) else 1

    # --- looking --------------------------------------------------------------------------------

    def find(self, y: int) -> Spot | None:
        """What is in that line, None if it is empty."""
        index = bisect_right(self._tops, y) - 1
        # Of several blocks that begin here, empty ones come first.
        if index < 0 or y - self._tops[index] >= len(self._lines[index]):
            return None
        return Spot(self._laid[index], y - self._tops[index], len(self._lines[index]))

    def find_nearest(self, y: int) -> Spot | None:
        """What is in that line, or above it, or below."""
        if not self._tops:
            return None
        index = max(0, bisect_right(self._tops, y) - 1)
        count = len(self._lines[index])
        return Spot(self._laid[index], min(max(0, y - self._tops[index]), count), count)

    def get_strip(self, y: int) -> Strip | None:
        """The line as it was drawn, None for an empty one."""
        index = bisect_right(self._tops, y) - 1
        if index < 0 or y - self._tops[index] >= len(self._lines[index]):
            return None
        return self._lines[index][y - self._tops[index]]

    def find_index(self, block: Block) -> int | None:
        """The index of a block in `blocks`; None if it is not laid out."""
        return _find(self.blocks, block)

    def find_lines(self, block: Block) -> range | None:
        """Where a block is, None if it is not laid out."""
        index = _find(self._laid, block)
        if index is None:
            return None
        return range(self._tops[index], self._tops[index] + len(self._lines[index]))


def _count(blocks: list[Block]) -> int:
    return len({seq for block in blocks for seq in block.seqs})


def _find(blocks: list[Block], block: Block) -> int | None:
    """Search from the end, where most changes are."""
    for index in range(len(blocks) - 1, -1, -1):
        if blocks[index] is block:
            return index
    return None
