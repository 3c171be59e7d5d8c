"""A progress bar for long work: quiet for the first second, and where nobody is watching."""

from __future__ import annotations

import threading
from collections.abc import Callable
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
        self._bar: Bar | None = None
        self._ended = False
        self._drawing = threading.Lock()
        # By itself, since some work says nothing of its progress before it is done.
        self._patience = threading.Timer(PATIENCE, self._appear)
        self._patience.daemon = True

    @property
    def visible(self) -> bool:
        """Whether the bar has appeared."""
        return self._bar is not None

    def advance(self, n: int = 1) -> None:
        """So much more is done."""
        self.done += n
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done, total=self.total)

    def tell(self, label: str) -> None:
        """What is done from now on."""
        self.label = label
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=label)

    def _appear(self) -> None:
        with self._drawing:
            if not self._ended:
                self._bar = self._draw()

    def _draw(self) -> Bar:
        # rich takes longer to import than most commands to run.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *([] if self.total is None else [MofNCompleteColumn(), TimeRemainingColumn()]),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        bar.add_task(self.label, total=self.total, completed=self.done)
        bar.start()
        return bar

    def __enter__(self) -> Self:
        if self._shown:
            self._patience.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patience.cancel()
        with self._drawing:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()


class UpdateReport:
    """How the update of an older store goes on: a line beforehand, a bar for each long step."""

    def __init__(self, note: Callable[[str], None], *, shown: bool) -> None:
        self._note = note
        self._shown = shown
        self._bar: Progress | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """What is done just now, how much of it, of how much; 0 of 0: what is going to be done."""
        if total == 0:
            self._note(what)
            return
        if self._bar is None:
            self._bar = Progress(what, total, shown=self._shown).__enter__()
        self._bar.advance(done - self._bar.done)
        if done >= total:
            self._bar.__exit__(None, None, None)
            self._bar = None
