"""Walking and searching a directory: a program of its own, run as a child process.

A pattern that takes for ever can't be interrupted in Python and would stop the whole of clew, so it
runs where it can be killed. It knows the standard library only. It reads one JSON object from its
argument and prints one JSON value per line: a list `[path]` or `[path, number, line]`, and last an
object that says how it ended. Links are never followed, `.git` and what is ignored by git are left
out, and so are the files that it is told to leave alone, by whatever name. The content of files
that may hold secrets is not searched; the last object counts them.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any

MAX_FILE = 5_000_000
MAX_LINE = 300
PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----", re.MULTILINE)
"""What a private key begins with, in a file of any name."""
HEAD = 8192
"""Bytes of a file that say whether it is binary, or a private key."""
FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

Ignoring = list[tuple[re.Pattern[str], bool, bool]]
"""Pattern over the path below the file's directory; whether it re-includes; directories only."""


def main() -> None:
    """Run the search that the argument describes."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    secret: set[str] = set()
    try:
        more = seek(given, secret)
    except (re.error, RecursionError, OverflowError) as error:
        say({"error": f"the pattern is wrong: {error}"})
    else:
        say({"more": more, "secret": len(secret)})


def say(value: Any) -> None:
    """Print one JSON value."""
    sys.stdout.write(json.dumps(value) + "\n")


def seek(given: dict[str, Any], secret: set[str]) -> bool:
    """Print what is found. Returns whether there is more than the limit.

    `secret` is filled with the files that were not searched because they may hold secrets.
    """
    files = walk(given)
    if given["glob"]:
        wanted = glob_pattern(given["glob"])
        files = (path for path in files if wanted.fullmatch(path))
    rows: Iterator[list[Any]] = ([path] for path in files)
    if given["pattern"] is not None:
        rows = find_lines(given["root"], (path for [path] in rows), given, secret)
    for count, row in enumerate(rows):
        if count == given["limit"]:
            return True
        say(row)
    return False


def find_lines(
    root: str, files: Iterator[str], given: dict[str, Any], secret: set[str]
) -> Iterator[list[Any]]:
    """Lines that match, with the file and the number; binary and huge files are passed over.

    So are those that may hold secrets, unless `given["secret"]` is None: the owner was asked.
    """
    closed = given["secret"] and re.compile(given["secret"], re.VERBOSE | re.IGNORECASE)
    flags = re.IGNORECASE if given["ignore_case"] else 0
    text = given["pattern"]
    pattern = re.compile(text if given["regex"] else re.escape(text), flags)
    for path in files:
        whole = f"{root.rstrip('/')}/{path}" if path else root
        if closed and closed.search(whole):
            secret.add(path)
            continue
        data = read(whole)
        if data is None:
            continue
        if closed and PRIVATE_KEY.search(data[:HEAD].encode()):
            secret.add(path)
            continue
        for number, ended in enumerate(data.split("\n"), 1):
            line = ended.rstrip("\r")
            match = pattern.search(line)
            if match:
                start = max(0, min(match.start() - MAX_LINE // 3, len(line) - MAX_LINE))
                yield [path, number, line[start : start + MAX_LINE]]


def read(path: str) -> str | None:
    """The text of a regular file, None for anything else."""
    try:
        descriptor = os.open(path, FLAGS)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError:
        return None
    if len(data) > MAX_FILE or b"\0" in data[:HEAD]:
        return None
    return data.decode("utf-8", "replace")


def walk(given: dict[str, Any]) -> Iterator[str]:
    """The files below a directory, relative, sorted, directory by directory."""
    root, closed = given["root"], set(given["closed"])
    known = list_identities(given["closed"], given["opened"])
    beside = tuple(f"{each}{sign}" for each in closed for sign in "-.")
    if not stat.S_ISDIR(os.lstat(root).st_mode):
        yield ""
        return
    top = root.rstrip("/")
    waiting = [(top, tuple((above, read_ignore(above)) for above in given["above"]))]
    while waiting:
        directory, rules = waiting.pop()
        rules = (*rules, (directory, read_ignore(directory)))
        try:
            entries = sorted(os.scandir(directory or "/"), key=lambda entry: entry.name)
        except OSError:
            continue
        deeper = []
        for entry in entries:
            path = f"{directory}/{entry.name}"
            is_directory = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or path in closed or path.startswith(beside):
                continue
            if is_known(entry, known):
                continue
            if not given["ignored"] and is_ignored(path, is_directory, rules):
                continue
            if is_directory:
                deeper.append((path, rules))
            elif entry.is_file(follow_symlinks=False):
                yield path[len(top) + 1 :]
        waiting.extend(reversed(deeper))


def list_identities(closed: Iterable[str], opened: str | None) -> set[tuple[int, int]]:
    """Device and inode of files and directories that are closed, and of all that is in them.

    What is in the directory `opened`, which is one of them, is left out.
    """
    waiting, known = list(closed), set()
    while waiting:
        path = waiting.pop()
        if path == opened:
            continue
        try:
            status = os.lstat(path)
            known.add((status.st_dev, status.st_ino))
            if stat.S_ISDIR(status.st_mode):
                waiting += [f"{path}/{name}" for name in os.listdir(path)]  # noqa: PTH208  # paths are texts here
        except OSError:
            continue
    return known


def is_known(entry: os.DirEntry[str], known: set[tuple[int, int]]) -> bool:
    """Whether an entry of a directory is one of these files."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in known


def read_ignore(directory: str) -> Ignoring:
    """The rules of a directory's .gitignore."""
    text = read(f"{directory}/.gitignore")
    rules: Ignoring = []
    for line in (text or "").splitlines():
        rule = line.rstrip()
        if not rule or rule.startswith("#"):
            continue
        again = rule.startswith("!")
        rule = rule[again:]
        only_directories = rule.endswith("/")
        rule = rule.rstrip("/")
        # A slash at the beginning or in between ties the rule to this directory.
        rule = rule.lstrip("/") if "/" in rule else f"**/{rule}"
        try:
            rules.append((translate(rule), again, only_directories))
        except re.error:
            continue
    return rules


def is_ignored(path: str, is_directory: bool, rules: tuple[tuple[str, Ignoring], ...]) -> bool:
    """Whether the last rule that matches a path excludes it."""
    ignored = False
    for directory, patterns in rules:
        relative = path[len(directory) + 1 :]
        for pattern, again, only_directories in patterns:
            if (is_directory or not only_directories) and pattern.fullmatch(relative):
                ignored = not again
    return ignored


def glob_pattern(glob: str) -> re.Pattern[str]:
    """A person's glob: one without a slash is for names in any directory."""
    return translate(glob.removeprefix("./") if "/" in glob else f"**/{glob}")


def translate(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression."""
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]/]*\])", glob)
    return re.compile("".join(_piece(piece, signs) for piece in pieces), re.DOTALL)


def _piece(piece: str, signs: dict[str, str]) -> str:
    if piece in signs:
        return signs[piece]
    if piece.startswith("[") and piece.endswith("]"):
        inner = piece[1:-1].replace("\\", "\\\\")
        return f"[^{inner[1:]}]" if inner[:1] in "!^" and inner[1:] else f"[{inner}]"
    return re.escape(piece)


if __name__ == "__main__":
    main()
