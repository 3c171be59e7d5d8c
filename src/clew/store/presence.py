"""Which processes have a SQLite store open: each holds the lock on a small file of its own.

The files are in `processes/` next to the store. Reused pids and reboots can't confuse this; pid and
command are in the file for people to read. PostgreSQL uses `ProcessInfo` and identities too.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import uuid
from pathlib import Path

import msgspec

from clew.files.locks import FileLock

_OPEN_FILES_ARE_FIXED = sys.platform == "win32"
"""Windows can neither rename nor remove an open file."""

_IDENTITY = re.compile(r"(?P<process>[0-9a-f]{32})@(?P<host>.+)", re.DOTALL)


class ProcessInfo(msgspec.Struct, frozen=True):
    """A process that has a store open."""

    process: str
    host: str
    pid: int
    version: str
    command: str
    started_at: int

    def __str__(self) -> str:
        return f"{self.command} (pid {self.pid}, clew {self.version})"


class Presence:
    """Announces this process to the others that share a store, and finds those."""

    def __init__(self, directory: Path, *, version: str, started_at: int) -> None:
        self.info = ProcessInfo(
            process=uuid.uuid4().hex,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version,
            command=command_name(sys.argv),
            started_at=started_at,
        )
        self._directory = directory
        self._path = directory / f"{self.info.process}.json"
        self._lock: FileLock | None = None

    @property
    def identity(self) -> str:
        """The identity of this process, see `ports.Processes`."""
        return f"{self.info.process}@{self.info.host}"

    def announce(self) -> None:
        """Count as alive for other processes until `leave` or the end of this process."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        # Locked before it gets its name, so that no process sees it unlocked, as if dead.
        unnamed = self._path if _OPEN_FILES_ARE_FIXED else self._path.with_suffix(".new")
        self._lock = FileLock(unnamed)
        self._lock.acquire()
        self._lock.write(msgspec.json.encode(self.info))
        if unnamed != self._path:
            unnamed.rename(self._path)

    def leave(self) -> None:
        """Count as ended, and remove the file."""
        if self._lock is not None:
            if _OPEN_FILES_ARE_FIXED:
                self._lock.release()
            self._path.unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def is_living(self, holder: str) -> bool:
        """Whether the process of a holder is alive.

        Processes of other hosts, and holders that are not identities, count as alive.
        """
        identity = _IDENTITY.fullmatch(holder.partition("#")[0])
        if identity is None or identity["host"] != self.info.host:
            return True
        return self.is_alive(identity["process"])

    def is_alive(self, process: str) -> bool:
        """Whether a process of this host is alive. Removes the file of one that has died."""
        if process == self.info.process:
            return self._lock is not None
        path = self._directory / f"{process}.json"
        if not path.exists():
            return False
        probe = FileLock(path)
        # A shared lock: two processes that check a dead one at once must not block each other.
        if not probe.acquire(shared=True):
            return True
        path.unlink(missing_ok=True)
        probe.release()
        return False

    def others(self) -> tuple[ProcessInfo, ...]:
        """The other processes that are alive, oldest first."""
        found = []
        for path in self._directory.glob("*.json"):
            process = path.stem
            if process != self.info.process and self.is_alive(process):
                try:
                    found.append(msgspec.json.decode(path.read_bytes(), type=ProcessInfo))
                except (OSError, msgspec.DecodeError):
                    continue  # it left, or is not one of ours
        return tuple(sorted(found, key=lambda info: info.started_at))

    def dead(self) -> tuple[str, ...]:
        """Names of the files that dead processes have left. Removes none, unlike `is_alive`."""
        left = []
        for path in self._directory.glob("*.json"):
            probe = FileLock(path)
            if path.stem != self.info.process and probe.acquire(shared=True):
                left.append(path.name)
                probe.release()
        return tuple(sorted(left))


def process_of(holder: str) -> str | None:
    """The process of an identity, which may end with `#` and more; None if it is not one."""
    identity = _IDENTITY.fullmatch(holder.partition("#")[0])
    return None if identity is None else identity["process"]


def command_name(argv: list[str]) -> str:
    """The program and its first word, to show to people; no options, which may be secret."""
    if not argv or argv[0] in ("", "-", "-c"):
        return "python"  # a program that has no name
    path = Path(argv[0])
    program = path.parent.name if path.stem == "__main__" else path.stem
    word = argv[1] if len(argv) > 1 and not argv[1].startswith("-") else ""
    return f"{program} {word}".strip()
