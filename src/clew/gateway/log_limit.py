"""Keeps failures that anybody can cause from filling the log: each kind once a minute.

A filter for loggers of libraries. Two failures are of one kind if their first lines are the same,
and what was raised was raised at the same place.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MINUTE: Final = 60.0
MAX_KINDS: Final = 1_000
NOISY: Final = ("uvicorn.error", "asyncio")
"""The loggers that have something to say about every connection."""


class OncePerMinute(logging.Filter):
    """Passes the first record of each kind in a minute, and counts the others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged. It says how many were not."""
        now, kind = self._clock(), _kind_of(record)
        since, left_out = self._kinds.get(kind, (now - MINUTE, 0))
        if now - since < MINUTE:
            self._kinds[kind] = (since, left_out + 1)
            return False
        if len(self._kinds) >= MAX_KINDS:
            self._kinds.clear()
        self._kinds[kind] = (now, 0)
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out:,} more since the last such line)"
            record.args = ()
        return True


def _kind_of(record: logging.LogRecord) -> object:
    place: object = None
    if record.exc_info and record.exc_info[1] is not None:
        kind, _, trace = record.exc_info
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = kind, None if trace is None else (trace.tb_frame.f_code, trace.tb_lineno)
    return record.name, record.levelno, str(record.msg).partition("\n")[0], place


@contextmanager
def limited_logs() -> Iterator[None]:
    """Limit the logs of the server's libraries for this block."""
    limit = OncePerMinute()
    for name in NOISY:
        logging.getLogger(name).addFilter(limit)
    try:
        yield
    finally:
        for name in NOISY:
            logging.getLogger(name).removeFilter(limit)
