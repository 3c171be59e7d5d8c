"""The log of a gateway: one line of JSON per event, in a file that only its owner can read.

A line has no words of a message, a model or a provider (`core.gateway_events`). The file is
bounded: when it is full its number goes up by one (`.1`, `.2`); the oldest one goes. An event that
repeats is written the first, the tenth, the hundredth time and so on, with its count. A disk that
is full does not disturb the gateway: lines are lost then.

`OncePerMinute` keeps failures that anybody can cause from filling the logs of libraries.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from clew.core.gateway_events import GatewayEvent
from clew.files.durable import make_directory

NAME: Final = "gateway.log"
MAX_BYTES: Final = 5_000_000
KEPT: Final = 3
"""How many full files are kept."""

_ENCODE: Final = msgspec.json.Encoder()
_DECODE: Final = msgspec.json.Decoder(GatewayEvent)


class LogFile:
    """Appends events to the log of a state directory. Made for `EventLog.listen`."""

    def __init__(self, state_dir: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = state_dir / NAME
        self._max_bytes = max_bytes

    def write(self, event: GatewayEvent) -> None:
        """Append a line."""
        if str(event.count).strip("0") != "1":
            return
        with contextlib.suppress(OSError):
            make_directory(self._path.parent)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                # One write for the line: another process may append at the same time.
                os.write(descriptor, _ENCODE.encode(event) + b"\n")
                is_full = os.fstat(descriptor).st_size >= self._max_bytes
            finally:
                os.close(descriptor)
            if is_full:
                self._put_away()

    def _put_away(self) -> None:
        for number in range(KEPT - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                older_name(self._path, number).replace(older_name(self._path, number + 1))
        self._path.replace(older_name(self._path, 1))


def older_name(path: Path, number: int) -> Path:
    """The name of an older file of a log; 1 is the newest of them."""
    return path.with_name(f"{path.name}.{number}")


def read_log(state_dir: Path) -> Iterator[GatewayEvent]:
    """All events that are still there, oldest first. Lines that can't be read are left out."""
    path = state_dir / NAME
    for file in (*(older_name(path, number) for number in range(KEPT, 0, -1)), path):
        with contextlib.suppress(FileNotFoundError), file.open("rb") as lines:
            yield from _read_lines(lines)


class LogReader:
    """Reads what comes into the log from now on, also over the change of files."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / NAME
        found = self._stat()
        self._file: int | None = None if found is None else found.st_ino
        self._place = 0 if found is None else found.st_size

    def read(self) -> Iterator[GatewayEvent]:
        """The events since the last call."""
        found = self._stat()
        if self._file is not None and (found is None or found.st_ino != self._file):
            yield from self._read(older_name(self._path, 1))
            self._file, self._place = None, 0
        if found is not None:
            self._file = found.st_ino
            yield from self._read(self._path)

    def _read(self, path: Path) -> Iterator[GatewayEvent]:
        try:
            with path.open("rb") as lines:
                lines.seek(self._place)
                data = lines.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._place += len(whole)
        yield from _read_lines(whole.splitlines())

    def _stat(self) -> os.stat_result | None:
        try:
            return self._path.stat()
        except FileNotFoundError:
            return None


def _read_lines(lines: Iterator[bytes] | list[bytes]) -> Iterator[GatewayEvent]:
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            yield _DECODE.decode(line)


MINUTE: Final = 60.0
MAX_KINDS: Final = 1_000
NOISY: Final = ("uvicorn.error", "asyncio")
"""The loggers that have something to say about every connection."""


class OncePerMinute(logging.Filter):
    """Passes the first record of each kind in a minute, and counts the others.

    Two failures are of one kind if their first lines are the same, and what was raised was raised
    at the same place.
    """

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
