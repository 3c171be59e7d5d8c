"""Which processes have a SQLite store open: each holds the lock on a small file of its own.

The files are in `processes/` next to the store. Reused pids and reboots can't confuse this; pid and
command are in the file for people to read. PostgreSQL uses `ProcessInfo` and identities too.
"""

from __future__ import annotations

import contextlib
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
        lock = FileLock(unnamed)
        while not self._name(lock):
            lock.release()  # another process that starts took it for one that was left behind
        self._lock = lock

    def _name(self, lock: FileLock) -> bool:
        """Write the file and give it its name; False if it was taken away before it was locked."""
        if not lock.acquire():
            return False
        try:
            lock.write(msgspec.json.encode(self.info))
            if lock.path != self._path:
                lock.path.rename(self._path)
        except FileNotFoundError:
            return False
        except OSError:
            with contextlib.suppress(OSError):
                lock.path.unlink(missing_ok=True)
            raise
        return True

    def leave(self) -> None:
        """Count as ended, and remove the file."""
        if self._lock is not None:
            if _OPEN_FILES_ARE_FIXED:
                self._lock.release()
            with contextlib.suppress(OSError):  # nobody takes a file without a lock for alive
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
        probe = _probe(path)
        try:
            if not probe.acquire(shared=True):
                return True
        except FileNotFoundError:
            return False
        except OSError:
            return True  # another user's file, or no file at all: nothing can be known
        with contextlib.suppress(OSError):  # it may belong to another user, and is dead anyway
            path.unlink(missing_ok=True)
        probe.release()
        return False

    def clear(self) -> None:
        """Remove the files of processes that have died, those without a name yet too."""
        for path in self._directory.glob("*.json"):
            self.is_alive(path.stem)
        for path in self._directory.glob("*.new"):
            with contextlib.suppress(OSError):  # another user's, or gone meanwhile
                probe = _probe(path)
                if probe.acquire(shared=True):
                    path.unlink(missing_ok=True)
                    probe.release()

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
            probe = _probe(path)
            with contextlib.suppress(FileNotFoundError):  # it left
                if path.stem != self.info.process and probe.acquire(shared=True):
                    left.append(path.name)
                    probe.release()
        return tuple(sorted(left))


def _probe(path: Path) -> FileLock:
    """To look whether a process holds the lock on its file.

    It is taken as a shared lock: two that look at once must not block each other. It never makes
    the file: a process that starts would give its name to that one, which nobody has locked.
    """
    return FileLock(path, make=False)


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
