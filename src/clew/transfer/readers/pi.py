"""pi and its relatives: a JSON-lines file per session, a tree by `id` and `parentId`.

oh-my-pi keeps images beside the sessions and a title in the first line; Clawdbot and OpenClaw keep
an index with the keys that lead to sessions, and an envelope before what people write. OpenClaw's
newer database is read in `openclaw`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from clew.core.usage import Usage
from clew.transfer.jsonl import BlobLine, Line
from clew.transfer.readers.files import (
    Entry as File,
)
from clew.transfer.readers.files import (
    Refused,
    dict_of,
    dicts_of,
    given_files,
    list_files,
    open_own,
    parse_object,
    read_document,
    split_lines,
    text_of,
)
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import (
    MAX_IMAGE,
    About,
    Answer,
    Entry,
    Said,
    Summed,
    blob_of,
    call_of,
    clean_line,
    make_lines,
    read_time,
    tool_said,
    usage_of,
    user_said,
)

_NATIVE: Final = re.compile(r"(?:.*_)?(?P<id>[0-9a-fA-F][0-9a-fA-F-]{7,})")
_BLOB: Final = re.compile(r"blob:sha256:(?P<hash>[0-9a-f]{64})")

# [Telegram Alice id:42 2026-01-31 10:30] or [message_id: 7] around what a person wrote.
_ENVELOPE: Final = re.compile(r"\s*\[[A-Z][^\[\]\n]{0,200}\d{4}-\d\d-\d\d[^\[\]\n]{0,60}\]\s*")
_MESSAGE_ID: Final = re.compile(r"\n?\[message_id: [^\[\]\n]{1,100}\]\s*$")

SILENT: Final = "NO_REPLY"
"""An answer that was never sent."""

_UNSAID: Final = ("thinking_level_change", "model_change", "label", "session_info", "session")


class Pi:
    """The reader of pi's sessions."""

    name = "pi"
    label = "pi"
    folder: ClassVar[tuple[str, ...]] = (".pi", "agent")
    variable = "PI_CODING_AGENT_DIR"
    depth = 1

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`."""
        root = home.place(self.variable, *self.folder)
        for file in list_files(root / "sessions", root, _is_lines, depth=self.depth):
            yield self.source(file, root)

    def open(self, path: Path) -> Iterator[Source]:
        """See `Reader`."""
        path = path.resolve()
        root = path if path.is_dir() else path.parent
        for file in given_files(path, _is_lines):
            if path.is_dir() and not self.recognises(file.path, _first(file.path, root)):
                continue
            yield self.source(file, root)

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        return self.fits(path) and _has_header(first)

    def fits(self, path: Path) -> bool:
        """Whether the place of a file is one of this agent's: formats of relatives are the same."""
        known = {".omp", ".clawdbot", ".openclaw"}
        return not known & set(path.resolve().parts)

    def source(self, file: File, root: Path) -> Source:
        """The session in a file."""
        return Source(
            agent=self.name,
            id=_native(file.path.stem),
            path=file.path,
            root=root,
            stamp=file.stamp,
            at=file.at,
            size=file.size,
            parent=self.parent(file.path),
        )

    def parent(self, path: Path) -> str | None:  # noqa: ARG002  # relatives look at it
        """The session that a sub-agent worked for."""
        return None

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        tree = Tree(reading, self.find_blob(source))
        tree.load(source)
        return self.lines(source, tree)

    def lines(self, source: Source, tree: Tree) -> Iterator[Line]:
        """The lines of a tree that was read."""
        about = About(
            agent=source.agent,
            id=source.id,
            title=tree.title or source.title,
            title_by="user" if tree.title else "auto",
            directory=tree.cwd,
            created_at=tree.began,
        )
        return make_lines(about, tree.entries())

    def find_blob(self, source: Source) -> Path | None:  # noqa: ARG002  # relatives have some
        """The directory of images."""
        return None


class OhMyPi(Pi):
    """The reader of oh-my-pi's sessions."""

    name = "oh-my-pi"
    label = "oh-my-pi"
    folder = (".omp", "agent")
    variable = ""
    depth = 2

    def fits(self, path: Path) -> bool:
        """See `Pi`."""
        return ".omp" in path.resolve().parts

    def parent(self, path: Path) -> str | None:
        """Sub-agents are in a directory named like the file of their session."""
        beside = path.parent.with_name(f"{path.parent.name}.jsonl")
        return _native(path.parent.name) if beside.is_file() else None

    def find_blob(self, source: Source) -> Path | None:
        """See `Pi`."""
        for folder in source.path.parents:
            if (folder / "blobs").is_dir():
                return folder / "blobs"
        return None


class Clawdbot(Pi):
    """The reader of Clawdbot's sessions, in files."""

    name = "clawdbot"
    label = "Clawdbot"
    home_folder = ".clawdbot"

    def __init__(self) -> None:
        self._indexes: dict[str, dict[str, dict[str, Any]]] = {}

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`."""
        root = home.directory / self.home_folder
        for file in list_files(root / "agents", root, _is_lines, depth=2):
            if file.path.parent.name == "sessions":
                yield self.source(file, root)

    def fits(self, path: Path) -> bool:
        """See `Pi`."""
        return self.home_folder in path.resolve().parts

    def source(self, file: File, root: Path) -> Source:
        """See `Pi`. The index knows the name of the session."""
        source = super().source(file, root)
        facts = self._index(file.path.parent, root).get(source.id, {})
        named = (facts.get("displayName"), facts.get("subject"), facts.get("label"))
        title = next((clean for each in named if (clean := clean_line(each, 200))), None)
        return Source(**{**_fields(source), "title": title})

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        tree = Tree(reading, None, enveloped=True)
        facts = self._index(source.path.parent, source.root).get(source.id, {})
        key = clean_line(facts.get("key"), 200)
        reading.keys = (key,) if key else ()
        tree.load(source)
        return self.lines(source, tree)

    def _index(self, folder: Path, root: Path) -> dict[str, dict[str, Any]]:
        """What the index of a directory says, by session; with the key that leads to it."""
        if str(folder) not in self._indexes:
            found: dict[str, dict[str, Any]] = {}
            try:
                document = dict_of(read_document(folder / "sessions.json", root))
            except (OSError, Refused):
                document = {}
            for key, facts in document.items():
                if isinstance(facts, dict) and isinstance(facts.get("sessionId"), str):
                    found[facts["sessionId"]] = {**facts, "key": key}
            self._indexes[str(folder)] = found
        return self._indexes[str(folder)]


def _fields(source: Source) -> dict[str, Any]:
    return {name: getattr(source, name) for name in source.__struct_fields__}


def _is_lines(name: str) -> bool:
    return name.endswith(".jsonl")


def _native(stem: str) -> str:
    """The id in the name of a file: behind the time, if there is one."""
    named = _NATIVE.fullmatch(stem)
    return stem if named is None else named["id"]


def _first(path: Path, root: Path) -> bytes:
    try:
        with open_own(path, root) as stream:
            return stream.read(8_192)
    except (OSError, Refused):
        return b""


def _has_header(first: bytes) -> bool:
    lines = [parse_object(raw) or {} for raw in first.split(b"\n")[:2]]
    return any(
        line.get("type") == "session" and "format" not in line and ("cwd" in line or "id" in line)
        for line in lines
    )


class Tree:
    """The entries of a session, and the branch that is active: the last line is its leaf."""

    def __init__(self, reading: Reading, blobs: Path | None, *, enveloped: bool = False) -> None:
        self._reading = reading
        self._blobs = blobs
        self._enveloped = enveloped
        self._lines: dict[str, dict[str, Any]] = {}
        self._parents: dict[str, str | None] = {}
        self._last: str | None = None
        self.title: str | None = None
        self.cwd: str | None = None
        self.began: int | None = None

    def load(self, source: Source) -> None:
        """Take the lines of a file."""
        with open_own(source.path, source.root) as stream:
            for raw in split_lines(stream):
                self._reading.advance(raw.size)
                if raw.data is None or raw.data.strip():
                    self.take(None if raw.data is None else parse_object(raw.data))

    def take(self, line: dict[str, Any] | None) -> None:
        """Take the next line; None is one that could not be read."""
        if line is None:
            self._reading.broken += 1
            return
        kind = line.get("type")
        if kind == "session":
            self.cwd = self.cwd or clean_line(line.get("cwd"), 1_000)
            self.began = self.began or read_time(line.get("timestamp"))
            self.title = clean_line(line.get("title"), 200) or self.title
            return
        if kind == "title":
            self.title = clean_line(line.get("title"), 200) or self.title
            return
        if kind == "session_info":
            self.title = clean_line(line.get("name"), 200) or self.title
        native = text_of(line.get("id")) or f"line {len(self._lines)}"
        parent = line.get("parentId", self._last)
        self._lines[native] = line
        self._parents[native] = parent if isinstance(parent, str) else None
        self._last = native

    def entries(self) -> Iterator[Entry]:
        """What was said in the branch that is asked for."""
        active = self._chain(self._last)
        if self._reading.branch is not None:
            active = self._chain(self._reading.branch)
        else:
            self._reading.branches = self._others(set(active))
        for native in active:
            yield from self._entry(native, self._lines[native])

    def _chain(self, leaf: str | None) -> list[str]:
        chain: dict[str, None] = {}
        while leaf is not None and leaf in self._lines and leaf not in chain:
            chain[leaf] = None
            leaf = self._parents[leaf]
        return list(chain)[::-1]

    def _others(self, active: set[str]) -> tuple[str, ...]:
        parents = set(self._parents.values())
        leaves = [each for each in self._lines if each not in parents and each not in active]
        return tuple(leaf for leaf in leaves if self._adds_talk(leaf, active))

    def _adds_talk(self, leaf: str, active: set[str]) -> bool:
        fresh = (each for each in self._chain(leaf) if each not in active)
        return any(
            dict_of(self._lines[each].get("message")).get("role") == "user" for each in fresh
        )

    def _entry(self, native: str, line: dict[str, Any]) -> Iterator[Entry]:
        at = read_time(line.get("timestamp"))
        match line.get("type"):
            case "message":
                message = dict_of(line.get("message"))
                yield from self._message(native, message, at or read_time(message.get("timestamp")))
            case "compaction":
                before = line.get("tokensBefore")
                yield Summed(
                    id=native,
                    text=text_of(line.get("summary")),
                    keep=text_of(line.get("firstKeptEntryId")) or None,
                    at=at,
                    tokens_before=before if isinstance(before, int) and before >= 0 else None,
                )
            case "reset_boundary":
                yield Summed(id=native, text="(The context was reset here.)", at=at)
            case "branch_summary":
                text = text_of(line.get("summary"))
                if text:
                    yield user_said(native, text, at=at, begins=False)
            case "custom_message":
                text, blobs = self._content(line.get("content"))
                if text.strip() or blobs:
                    yield user_said(native, text, at=at, blobs=blobs, begins=False)
            case kind if kind not in _UNSAID:
                self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} entries"] += 1

    def _message(self, native: str, message: dict[str, Any], at: int | None) -> Iterator[Entry]:
        match message.get("role"):
            case "user":
                text, blobs = self._content(message.get("content"))
                if self._enveloped:
                    text = _MESSAGE_ID.sub("", _ENVELOPE.sub("", text, count=1))
                if text.strip() or blobs:
                    yield user_said(native, text, at=at, blobs=blobs)
            case "assistant":
                yield from self._answer(native, message, at)
            case "toolResult":
                text, blobs = self._content(message.get("content"))
                yield tool_said(
                    native,
                    message.get("toolCallId"),
                    text,
                    at=at,
                    name=message.get("toolName"),
                    is_error=message.get("isError") is True,
                    blobs=blobs,
                )
            case "bashExecution":
                yield _ran(native, message, at)
            case kind:
                self._reading.lost[f"messages of {clean_line(kind, 40) or 'nobody'}"] += 1

    def _answer(self, native: str, message: dict[str, Any], at: int | None) -> Iterator[Entry]:
        answer = Answer()
        content = message.get("content")
        if isinstance(content, str):
            answer.say(content)
        for block in dicts_of(content):
            match block.get("type"):
                case "text":
                    answer.say(text_of(block.get("text")))
                case "thinking":
                    signature = block.get("thinkingSignature")
                    answer.think(text_of(block.get("thinking")), signature)
                case "toolCall":
                    call = call_of(block.get("id"), block.get("name"), block.get("arguments"))
                    answer.call(call)
                case "image" if (blob := self._image(block)) is not None:
                    answer.show(blob)
                case kind:
                    self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} blocks"] += 1
        error = clean_line(message.get("errorMessage"), 500)
        said = answer.said(
            native,
            at=at,
            model=message.get("model"),
            usage=_usage(dict_of(message.get("usage"))),
            error=error,
        )
        if self._enveloped and said.draft.content.strip() == SILENT and not said.draft.tool_calls:
            self._reading.lost["answers that were never sent"] += 1
        elif answer:
            yield said
        elif error:
            self._reading.lost["answers that failed"] += 1

    def _content(self, content: object) -> tuple[str, list[BlobLine]]:
        if isinstance(content, str):
            return content, []
        texts, blobs = [], []
        for block in dicts_of(content):
            if block.get("type") == "text":
                texts.append(text_of(block.get("text")))
            elif block.get("type") == "image" and (blob := self._image(block)) is not None:
                blobs.append(blob)
            else:
                kind = clean_line(block.get("type"), 40) or "unnamed"
                self._reading.lost[f"{kind} blocks"] += 1
        return "\n\n".join(each for each in texts if each), blobs

    def _image(self, block: dict[str, Any]) -> BlobLine | None:
        data, kind = block.get("data"), block.get("mimeType")
        named = _BLOB.fullmatch(data) if isinstance(data, str) else None
        if named is None or self._blobs is None:
            return blob_of(data, kind)
        try:
            with open_own(self._blobs / named["hash"], self._blobs) as stream:
                return blob_of(stream.read(MAX_IMAGE + 1), kind)
        except (OSError, Refused):
            return None


def _ran(native: str, message: dict[str, Any], at: int | None) -> Said:
    """A command that the person ran: the model reads it as something that they said."""
    command, output = text_of(message.get("command")), text_of(message.get("output"))
    text = f"Ran `{command}`\n```\n{output}\n```"
    return user_said(native, text, at=at, begins=False)


def _usage(usage: dict[str, Any]) -> Usage | None:
    cached, created = usage.get("cacheRead"), usage.get("cacheWrite")
    return usage_of(
        read=_total(usage.get("input"), cached, created),
        written=usage.get("output"),
        cached=cached,
        created=created,
        dollars=dict_of(usage.get("cost")).get("total"),
    )


def _total(*counts: object) -> int:
    return sum(each for each in counts if isinstance(each, int) and each > 0)


def read_events(lines: Iterable[bytes | str], reading: Reading) -> Tree:
    """A tree from events that are kept elsewhere than in a file."""
    tree = Tree(reading, None, enveloped=True)
    for raw in lines:
        tree.take(parse_object(raw))
    return tree
