"""Directories that the agent may work in: which of them a person is asked about first.

The whole disk, a home directory and clew's own directories are no workspace by themselves: a person
says so once, and that is remembered in a small file of the state directory. What tools do in a
workspace, and who asks the person, is not known here.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from clew.files.durable import find_bytes, make_directory, put_bytes
from clew.files.locks import held

LOCK_S: Final = 10.0


class Workspaces:
    """What this clew knows about directories.

    `own` are clew's directories, and `opened` the one below them that is a workspace. `named` are
    those that the configuration names. `listed` are the directories below which a token may name
    one. These are workspaces, whatever they are. `memo` is the file of the person's answers.
    """

    def __init__(
        self,
        *,
        own: Sequence[Path] = (),
        opened: Path | None = None,
        named: Sequence[Path] = (),
        listed: Sequence[Path] = (),
        memo: Path | None = None,
    ) -> None:
        self._own = own
        self._opened = opened
        self._named = named
        self._listed = listed
        self._memo = memo

    def find_doubt(self, *directories: str | None) -> str | None:
        """What the first of these is that is no workspace by itself; None if all of them may be."""
        for each in directories:
            doubt = None if each is None else self._describe(Path(each))
            if each is not None and doubt is not None and not self.get_answer(each):
                return doubt
        return None

    def get_answer(self, directory: str) -> bool | None:
        """What the person has said about a directory; None if they were not asked yet."""
        return self._read().get(str(_resolve(Path(directory))))

    def remember(self, directory: str, answer: bool) -> None:
        """Keep what the person has said about a directory."""
        if self._memo is None:
            return
        make_directory(self._memo.parent)
        with held(self._memo.with_name(f".{self._memo.name}.lock"), patience=LOCK_S):
            answers = self._read() | {str(_resolve(Path(directory))): answer}
            put_bytes(self._memo, msgspec.json.format(msgspec.json.encode(answers)))

    def is_listed(self, directory: str) -> bool:
        """Whether a directory is one that tokens may name, or lies below one."""
        real = _resolve(Path(directory))
        return any(real.is_relative_to(_resolve(each)) for each in self._listed)

    def _describe(self, path: Path) -> str | None:
        real = _resolve(path)
        if any(real == _resolve(each) for each in (*self._named, *self._listed)):
            return None
        if real.parent == real:
            return "the whole disk"
        if _is_home(real):
            return "a home directory"
        if any(home.is_relative_to(real) for home in _list_homes()):
            return "a directory with home directories in it"
        return "a directory of clew itself" if self._is_own(real) else None

    def _is_own(self, real: Path) -> bool:
        if self._opened is not None and real.is_relative_to(_resolve(self._opened)):
            return False
        return any(real.is_relative_to(_resolve(each)) for each in self._own)

    def _read(self) -> dict[str, bool]:
        data = None if self._memo is None else find_bytes(self._memo)
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(data or b"{}", type=dict[str, bool])
        return {}


def _is_home(real: Path) -> bool:
    """Whether a directory is the home of this user, or has the place of another one's."""
    return real in _list_homes() or real.parent in (Path("/home"), Path("/Users"))


def _list_homes() -> list[Path]:
    """The home directory of this user, as the environment and the system say."""
    homes = []
    for home in ("~", f"~{_find_user()}"):
        with contextlib.suppress(RuntimeError, OSError):
            homes.append(_resolve(Path(home).expanduser()))
    return [each for each in homes if each.is_absolute()]


def _find_user() -> str:
    """The name of this user; the empty text if the system does not tell."""
    if sys.platform == "win32":  # pragma: no cover  # written for, not tested here
        return ""
    import pwd  # noqa: PLC0415  # Windows has none

    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return ""


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()
