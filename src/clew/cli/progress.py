"""A progress bar for long work: quiet for the first second, and where nobody is watching."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

PATIENCE: Final = 1.0
"""Seconds of work before a bar appears."""


class Progress:
    """How far some work is. `total` may be set, or corrected, while it goes on."""

    def __init__(self, label: str, total: int | None, *, shown: bool) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._shown = shown
        self._since = time.monotonic()
        self._bar: Bar | None = None

    def advance(self, n: int = 1) -> None:
        """So much more is done."""
        self.done += n
        if self._bar is None:
            if not self._shown or time.monotonic() - self._since < PATIENCE:
                return
            self._bar = self._draw()
        self._bar.update(self._bar.task_ids[0], completed=self.done, total=self.total)

    def _draw(self) -> Bar:
        # rich takes longer to import than most commands to run.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        bar.add_task(self.label, total=self.total)
        bar.start()
        return bar

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
