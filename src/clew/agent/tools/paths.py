"""Paths that a tool may use: the workspace, without links that lead out of it.

A path is resolved first; from then on every directory on the way is opened without following links,
so the file that was judged is the file that is opened. Files of clew itself are never opened, by
whatever name. Whether a path outside the workspace, or a file that may hold secrets, may be used is
decided in `core.tool_rules`.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from clew.agent.tools.search_process import list_identities
from clew.agent.tools.tool import Job, Policy, ToolFailure
from clew.core.tool_rules import is_confidential

_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)
# Opening a pipe must not wait for a writer.
_READING = os.O_RDONLY | _NOFOLLOW | _BINARY | getattr(os, "O_NONBLOCK", 0)


class Workspace(msgspec.Struct, frozen=True):
    """The directory that belongs to a session, and the one that its relative paths begin at."""

    root: Path
    cwd: Path


class ResolvedPath(msgspec.Struct, frozen=True):
    """A resolved path. `shown` is relative to the workspace inside it, absolute outside.

    `secret`: the file may hold keys or passwords.
    """

    real: Path
    shown: str
    inside: bool
    secret: bool

    @property
    def is_open(self) -> bool:
        """Whether a tool may look at it without a question."""
        return self.inside and not self.secret


def get_workspace(job: Job) -> Workspace:
    """The session's workspace: its project if the directory lies in it, else the directory."""
    session = job.turn.session
    named = session.cwd or session.project or job.policy.workspace
    if named is None:
        raise ToolFailure("This session has no directory, so there are no files to work on.")
    cwd = Path(named).resolve()
    if not cwd.is_dir():
        raise ToolFailure(f"The session's directory {cwd} does not exist (any more).")
    root = Path(session.project).resolve() if session.project else cwd
    return Workspace(root if cwd.is_relative_to(root) else cwd, cwd)


def locate(job: Job, path: str) -> ResolvedPath:
    """Where a path that the model gave really leads. `ToolFailure` for one that can't be used."""
    workspace = get_workspace(job)
    try:
        real = (workspace.cwd / Path(path).expanduser()).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ToolFailure(f"{path!r} is not a usable path: {error}.") from None
    if is_sealed(job.policy, real):
        raise ToolFailure(f"{path} belongs to clew itself; no tool opens it.")
    inside = real.is_relative_to(workspace.root)
    shown = real.relative_to(workspace.root).as_posix() if inside else real.as_posix()
    return ResolvedPath(real, shown, inside, is_confidential(real.as_posix()))


def is_sealed(policy: Policy, real: Path) -> bool:
    """Whether a resolved path is clew's own, by its path or by its identity.

    So a bind mount of such a directory, or a hard link to a file in it, is closed too. Opening the
    database in this process would even drop the locks that SQLite holds on it.
    """
    sealed = [Path(each).resolve() for each in policy.sealed]
    opened = None if policy.opened is None else Path(policy.opened).resolve()
    if _is_linked(real, sealed, opened):
        return True
    closed = {identity for each in sealed if (identity := _identify(each))}
    for each in (real, *real.parents):
        if each == opened:
            return False
        if each in sealed or _identify(each) in closed or _is_beside(each, sealed):
            return True
    return False


def _is_beside(path: Path, sealed: list[Path]) -> bool:
    """Whether it is one of the files that SQLite and clew keep beside a database."""
    beside = (each for each in sealed if each.parent == path.parent)
    return any(path.name.startswith((f"{each.name}-", f"{each.name}.")) for each in beside)


def _is_linked(real: Path, sealed: list[Path], opened: Path | None) -> bool:
    """Whether a file is another name of one in a sealed directory."""
    try:
        status = real.lstat()
    except (OSError, ValueError):
        return False
    if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2:
        return False
    known = list_identities(map(str, sealed), None if opened is None else str(opened))
    return (status.st_dev, status.st_ino) in known


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def open_regular(real: Path) -> int:
    """A descriptor for reading a regular file at a resolved path; `OSError` for anything else."""
    with _open_parent(real) as (parent, name):
        descriptor = os.open(name, _READING, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{real} is not a regular file")
    return descriptor


def read_bytes(real: Path, limit: int) -> bytes:
    """A whole regular file; `ToolFailure` if it is larger than the limit."""
    with os.fdopen(open_regular(real), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ToolFailure(f"{real} is larger than {limit:,} bytes.")
    return data


def write_atomic(real: Path, data: bytes) -> None:
    """Put a file in place in one step, keeping its mode. Missing directories are made."""
    with _open_parent(real, make=True) as (parent, name):
        mode = _mode_of(name, parent)
        temporary = str(Path(name).with_name(f".clew-{secrets.token_hex(8)}.tmp"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY
        descriptor = os.open(temporary, flags, 0o666, dir_fd=parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, mode)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=parent)  # relative to a descriptor
            raise


def _mode_of(name: str, parent: int | None) -> int | None:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(f"{name} is not a regular file")
    return stat.S_IMODE(found.st_mode)


@contextmanager
def _open_parent(real: Path, *, make: bool = False) -> Iterator[tuple[int | None, str]]:
    """The directory of a resolved path, reached without following a link, and the name in it."""
    if os.open not in os.supports_dir_fd:  # Windows
        if make:
            real.parent.mkdir(parents=True, exist_ok=True)
        yield None, str(real)
        return
    current = os.open(real.anchor, _DIRECTORY)
    try:
        for part in real.parts[1:-1]:
            deeper = _open_directory(part, current, make=make)
            os.close(current)
            current = deeper
        yield current, real.name
    finally:
        os.close(current)


def _open_directory(name: str, parent: int, *, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY | _NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)  # relative to a descriptor
    return os.open(name, _DIRECTORY | _NOFOLLOW, dir_fd=parent)
