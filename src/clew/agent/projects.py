"""What a directory says about the project it belongs to: the git branch, and its AGENTS.md files.

Only reads files, and never runs git.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from clew.agent.tools.paths import open_regular

INSTRUCTIONS: Final = "AGENTS.md"
MAX_INSTRUCTIONS: Final = 20_000
_CUT: Final = "\n[… the rest is cut …]"


def find_repository(directory: Path) -> Path | None:
    """The nearest directory, from here upwards, with a `.git`."""
    for each in (directory, *directory.parents):
        if (each / ".git").exists():
            return each
    return None


def find_branch(directory: Path) -> str | None:
    """The branch that is checked out, or the beginning of the commit, None outside of git."""
    try:
        root = find_repository(directory.resolve())
        if root is None:
            return None
        git = root / ".git"
        if git.is_file():  # a worktree or a submodule
            _, _, named = _read(git).partition("gitdir:")
            git = root / named.strip()
        head = _read(git / "HEAD").strip()
    except (OSError, RuntimeError, ValueError):
        return None
    if head.startswith("ref:"):
        return head.removeprefix("ref:").strip().removeprefix("refs/heads/") or None
    return head[:12] or None


def list_instructions(cwd: Path, project: Path | None = None) -> list[tuple[Path, str]]:
    """The AGENTS.md files from the repository's root down to a directory, with their texts.

    Together at most `MAX_INSTRUCTIONS` characters: the nearest ones come first to their share. A
    link that leads out of the repository is not followed.
    """
    try:
        cwd = cwd.resolve()
        root = find_repository(cwd) or (project.resolve() if project else cwd)
    except (OSError, RuntimeError):
        return []
    if not cwd.is_relative_to(root):
        root = cwd
    way = [each for each in (cwd, *cwd.parents) if each.is_relative_to(root)]
    room = MAX_INSTRUCTIONS
    found: list[tuple[Path, str]] = []
    for directory in way:
        path = directory / INSTRUCTIONS
        try:
            real = path.resolve()
            text = _read(real) if real.is_relative_to(root) else ""
        except (OSError, RuntimeError):
            continue
        if not text.strip() or room <= len(_CUT):
            continue
        kept = text if len(text) <= room else text[: room - len(_CUT)] + _CUT
        room -= len(kept)
        found.append((path, kept))
    return found[::-1]


def _read(path: Path) -> str:
    """The beginning of a regular file."""
    with os.fdopen(open_regular(path.resolve()), "rb") as file:
        return file.read(4 * MAX_INSTRUCTIONS + 4).decode("utf-8", "replace")
