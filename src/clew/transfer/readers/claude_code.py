"""Claude Code: one JSON-lines file per session, a tree by `parentUuid`.

A file is read twice: first only the tree, to find the branch that is active, then the lines of that
branch. One answer comes as several lines with one `message.id`, whose usage is repeated on each.
Parallel tool calls make the tree branch, so results are found by the call that they answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from clew.core.session import TitleBy
from clew.core.usage import Usage
from clew.transfer.jsonl import BlobLine, Line
from clew.transfer.readers.files import (
    Entry as File,
)
from clew.transfer.readers.files import (
    dict_of,
    dicts_of,
    given_files,
    list_files,
    open_own,
    parse_object,
    read_line_at,
    split_lines,
    text_of,
)
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import (
    About,
    Answer,
    Entry,
    Planned,
    Said,
    Summed,
    blob_of,
    call_of,
    clean_line,
    make_lines,
    read_time,
    todos_of,
    tool_said,
    usage_of,
    user_said,
)

_SESSION: Final = re.compile(r"[0-9a-f-]{36}\.jsonl")
_SUBAGENT: Final = re.compile(r"agent-[\w-]+\.jsonl")

# A line that is only this is a command of the program, or its output: not part of the talk.
_COMMAND: Final = re.compile(
    r"\s*(?:<(?P<tag>command-(?:name|message|args)|local-command-[a-z]+|bash-(?:input|stdout|stderr))>"
    r".*?</(?P=tag)>\s*)+",
    re.DOTALL,
)

TITLES: Final = ("custom-title", "ai-title", "summary")
"""Kinds of lines that name the session, the best first."""

# Written for the program itself: nothing of the talk is in them.
_SILENT: Final = frozenset(
    {
        "file-history-snapshot", "last-prompt", "queue-operation", "progress", "permission-mode",
        "mode", "pr-link", "agent-name", "agent-color", "tag", "bridge-session",
        "content-replacement", "marble-origami-commit", "marble-origami-snapshot",
        "worktree-state", "speculation-accept", "attribution-snapshot", "task-summary",
    }
)  # fmt: skip


class _Block(msgspec.Struct):
    type: str = ""
    id: str = ""
    tool_use_id: str = ""


class _Body(msgspec.Struct):
    id: str = ""
    stop_reason: str | None = None
    content: str | list[_Block] = ""


class _Node(msgspec.Struct, rename="camel"):
    """What the tree needs of a line."""

    type: str = ""
    subtype: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool = False
    message: _Body | None = None
    cwd: str | None = None
    timestamp: Any = None


class _Place(msgspec.Struct):
    """A line of the tree, and where it is."""

    node: _Node
    offset: int
    size: int


_decode = msgspec.json.Decoder(_Node).decode


class ClaudeCode:
    """The reader of Claude Code's sessions."""

    name = "claude-code"
    label = "Claude Code"

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`."""
        root = home.place("CLAUDE_CONFIG_DIR", ".claude")
        for file in list_files(root / "projects", root, _is_session, depth=3):
            yield self._source(file, root)

    def open(self, path: Path) -> Iterator[Source]:
        """See `Reader`."""
        path = path.resolve()
        root = path if path.is_dir() else path.parent
        for file in given_files(path, _is_session):
            yield self._source(file, root)

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        for raw in first.split(b"\n")[:20]:
            line = parse_object(raw) or {}
            if ("parentUuid" in line and "sessionId" in line) or (
                line.get("type") in ("file-history-snapshot", "queue-operation")
                or (line.get("type") == "summary" and "leafUuid" in line)
            ):
                return True
        return _SESSION.fullmatch(path.name) is not None and b'"sessionId"' in first

    def _source(self, file: File, root: Path) -> Source:
        stem, parent = file.path.stem, None
        if file.path.parent.name == "subagents":
            parent = file.path.parent.parent.name
            stem = f"{parent}/{stem}"
        return Source(
            agent=self.name,
            id=stem,
            path=file.path,
            root=root,
            stamp=file.stamp,
            at=file.at,
            size=file.size,
            parent=parent,
        )

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        return _Session(source, reading).read()


def _is_session(name: str) -> bool:
    return bool(_SESSION.fullmatch(name) or _SUBAGENT.fullmatch(name))


class _Session:
    """The reading of one file."""

    def __init__(self, source: Source, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        self._places: dict[str, _Place] = {}
        self._titles: dict[str, str] = {}
        self._cwd: str | None = None
        self._began: int | None = None
        self._cut = False
        self._todos: Planned | None = None
        self._boundary: Summed | None = None

    def read(self) -> Iterator[Line]:
        with open_own(self._source.path, self._source.root) as stream:
            for raw in split_lines(stream):
                self._reading.advance(raw.size // 2)
                self._index(raw.data, raw.offset, raw.size)
            chosen = self._choose()
            title, by = self._title()
            about = About(
                agent=self._source.agent,
                id=self._source.id,
                title=title,
                title_by=by,
                directory=self._cwd,
                model=None,
                created_at=self._began,
            )
            yield from make_lines(about, self._entries(stream, chosen))

    # --- the tree -----------------------------------------------------------------------------

    def _index(self, raw: bytes | None, offset: int, size: int) -> None:
        if raw is not None and not raw.strip():
            return
        self._cut = raw is not None and not raw.endswith(b"\n")
        try:
            node = None if raw is None else _decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            node = _convert(raw)
        if node is None:
            self._reading.broken += 1
            return
        kind = node.type
        if kind in TITLES:
            self._take_title(kind, raw or b"")
        elif kind in ("user", "assistant", "system", "attachment") and node.uuid:
            self._places[node.uuid] = _Place(node, offset, size)
            if not node.is_sidechain and self._cwd is None:
                self._cwd = node.cwd
            if self._began is None:
                self._began = read_time(node.timestamp)
        elif kind not in _SILENT:
            self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} lines"] += 1

    def _take_title(self, kind: str, raw: bytes) -> None:
        line = parse_object(raw) or {}
        fields = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
        title = clean_line(line.get(fields[kind]) or line.get("title"), 200)
        if title:
            self._titles[kind] = title

    def _title(self) -> tuple[str | None, TitleBy]:
        for kind in TITLES:
            if kind in self._titles:
                return self._titles[kind], "user" if kind == "custom-title" else "auto"
        return None, "auto"

    def _choose(self) -> list[_Place]:
        """The lines of the branch that is asked for, in the order of the file."""
        own = self._source.parent is not None  # every line of a sub-agent's file is a sidechain
        spoken = [
            each
            for each in self._places.values()
            if each.node.type in ("user", "assistant") and (own or not each.node.is_sidechain)
        ]
        aside = sum(each.node.is_sidechain for each in self._places.values()) if not own else 0
        if aside:
            self._reading.lost["lines of sub-agents in the file of the session"] += aside
        if not spoken:
            return []
        active = self._chain(spoken[-1].node.uuid or "")
        if self._reading.branch is None:
            self._reading.branches = self._other_leaves(spoken, active)
        else:
            active = self._chain(self._reading.branch)
        places = [self._places[each] for each in active]
        return sorted(places, key=lambda each: each.offset)

    def _chain(self, leaf: str) -> set[str]:
        """The ids from a leaf to the root, with all of each answer and all results of its calls."""
        chain: set[str] = set()
        at: str | None = leaf
        while at is not None and at in self._places and at not in chain:
            chain.add(at)
            node = self._places[at].node
            at = node.parent_uuid or node.logical_parent_uuid
        answers, calls = set[str](), set[str]()
        for each in chain:
            self._note_calls(self._places[each].node, answers, calls)
        for uuid, place in self._places.items():
            body = place.node.message
            if uuid in chain or body is None:
                continue
            if place.node.type == "assistant" and body.id in answers:
                chain.add(uuid)
                self._note_calls(place.node, answers, calls)
            elif place.node.type == "user" and isinstance(body.content, list):
                results = {each.tool_use_id for each in body.content if each.tool_use_id}
                if results and results <= calls:
                    chain.add(uuid)
        return chain

    def _note_calls(self, node: _Node, answers: set[str], calls: set[str]) -> None:
        if node.type == "assistant" and node.message is not None:
            if node.message.id:
                answers.add(node.message.id)
            if isinstance(node.message.content, list):
                calls.update(each.id for each in node.message.content if each.type == "tool_use")

    def _other_leaves(self, spoken: list[_Place], active: set[str]) -> tuple[str, ...]:
        """The ends of branches that were left, if somebody said something there."""
        parents = {each.node.parent_uuid for each in self._places.values()}
        leaves = [
            each.node.uuid or ""
            for each in spoken
            if each.node.uuid not in active and each.node.uuid not in parents
        ]
        return tuple(leaf for leaf in leaves if self._adds_talk(leaf, active))

    def _adds_talk(self, leaf: str, active: set[str]) -> bool:
        at: str | None = leaf
        seen: set[str] = set()
        while at is not None and at in self._places and at not in active and at not in seen:
            seen.add(at)
            body = self._places[at].node.message
            if self._places[at].node.type == "user" and body is not None:
                blocks = body.content if isinstance(body.content, list) else []
                if not any(each.type == "tool_result" for each in blocks):
                    return True
            at = self._places[at].node.parent_uuid
        return False

    # --- what was said ------------------------------------------------------------------------

    def _entries(self, stream: BinaryIO, chosen: list[_Place]) -> Iterator[Entry]:
        answer: _Gathered | None = None
        for place in chosen:
            self._reading.advance(place.size // 2)
            line = parse_object(read_line_at(stream, place.offset, place.size)) or {}
            message = dict_of(line.get("message"))
            if line.get("type") == "assistant":
                if answer is None or not answer.continues(message):
                    yield from answer.finish() if answer is not None else ()
                    answer = _Gathered(line, message)
                self._todos = answer.add(message, self._reading) or self._todos
                continue
            if answer is not None:
                yield from answer.finish()
                answer = None
            yield from self._other(line, message)
        if answer is not None:
            if answer.is_whole or (self._reading.settled and not self._cut):
                yield from answer.finish()
            else:
                self._reading.held_back = True
        if self._todos is not None:
            yield self._todos

    def _other(self, line: dict[str, Any], message: dict[str, Any]) -> Iterator[Entry]:
        """A line that is not the assistant's."""
        if line.get("type") == "system":
            self._boundary = self._system(line) or self._boundary
        elif line.get("type") != "user":
            self._reading.lost["attachments"] += 1
        elif line.get("isCompactSummary"):
            yield _summed(line, _plain_text(message.get("content")), self._boundary)
            self._boundary = None
        else:
            yield from self._user(line, message)

    def _system(self, line: dict[str, Any]) -> Summed | None:
        if line.get("subtype") != "compact_boundary":
            self._reading.lost["notices of the program"] += 1
            return None
        facts = dict_of(line.get("compactMetadata"))
        before = facts.get("preTokens")
        return Summed(
            id=text_of(line.get("uuid")),
            text="",
            at=read_time(line.get("timestamp")),
            tokens_before=before if isinstance(before, int) and 0 <= before < 10**12 else None,
        )

    def _user(self, line: dict[str, Any], message: dict[str, Any]) -> Iterator[Entry]:
        native, at = text_of(line.get("uuid")), read_time(line.get("timestamp"))
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts: list[str] = []
        blobs: list[BlobLine] = []
        results = 0
        for number, block in enumerate(dicts_of(blocks)):
            match block.get("type"):
                case "text":
                    texts.append(text_of(block.get("text")))
                case "tool_result":
                    results += 1
                    yield self._result(f"{native}:{number}", block, at)
                case "image" | "document":
                    blob = _blob(block)
                    if blob is None:
                        self._reading.lost["images that are not in the file"] += 1
                    else:
                        blobs.append(blob)
                case kind:
                    self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} blocks"] += 1
        text = "\n\n".join(each for each in texts if each)
        if line.get("isMeta") or _COMMAND.fullmatch(text):
            self._reading.lost["commands and notes of the program"] += 1
        elif text.strip() or blobs:
            yield user_said(native, text, at=at, blobs=blobs, begins=not results)

    def _result(self, native: str, block: dict[str, Any], at: int | None) -> Said:
        content = block.get("content")
        blobs = [_blob(each) for each in dicts_of(content) if each.get("type") == "image"]
        return tool_said(
            native,
            block.get("tool_use_id"),
            _plain_text(content),
            at=at,
            is_error=block.get("is_error") is True,
            blobs=[each for each in blobs if each is not None],
        )


class _Gathered:
    """An answer whose lines are put together."""

    def __init__(self, line: dict[str, Any], message: dict[str, Any]) -> None:
        self._id = text_of(message.get("id"))
        self._native = self._id or text_of(line.get("uuid"))
        self._at = read_time(line.get("timestamp"))
        self._model = message.get("model")
        self._failed = line.get("isApiErrorMessage") is True
        self._usage: Usage | None = None
        self._answer = Answer()
        self.is_whole = False

    def continues(self, message: dict[str, Any]) -> bool:
        return bool(self._id) and message.get("id") == self._id

    def add(self, message: dict[str, Any], reading: Reading) -> Planned | None:
        """Add a line. Returns the todo list that it writes, if it writes one."""
        content, todos = message.get("content"), None
        if isinstance(content, str):
            self._answer.say(content)
        for block in dicts_of(content):
            match block.get("type"):
                case "text":
                    self._answer.say(text_of(block.get("text")))
                case "thinking":
                    self._answer.think(text_of(block.get("thinking")), block.get("signature"))
                case "tool_use":
                    given = block.get("input")
                    self._answer.call(call_of(block.get("id"), block.get("name"), given))
                    if block.get("name") == "TodoWrite":
                        todos = todos_of(dict_of(given).get("todos"))
                case kind:
                    reading.lost[f"{clean_line(kind, 40) or 'unnamed'} blocks"] += 1
        self._usage = _usage(dict_of(message.get("usage"))) or self._usage
        self.is_whole = self.is_whole or message.get("stop_reason") is not None
        return todos

    def finish(self) -> Iterator[Entry]:
        if self._answer:
            text = self._answer.said(
                self._native, at=self._at, model=_model(self._model), usage=self._usage
            )
            if self._failed:
                error = clean_line(text.draft.content, 500)
                text = msgspec.structs.replace(text, error=error)
            yield text


def _convert(raw: bytes | None) -> _Node | None:
    """A line that the quick decoder refuses: lone surrogates, or a field of another type."""
    line = None if raw is None else parse_object(raw)
    if line is None:
        return None
    wanted = {
        name: line[name]
        for name in ("type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "cwd")
        if isinstance(line.get(name), str)
    }
    body = dict_of(line.get("message"))
    blocks = [
        {
            name: each[name]
            for name in ("type", "id", "tool_use_id")
            if isinstance(each.get(name), str)
        }
        for each in dicts_of(body.get("content"))
    ]
    message = {"id": text_of(body.get("id")), "content": blocks}
    side = line.get("isSidechain") is True
    stamped = {"timestamp": line.get("timestamp"), "isSidechain": side, "message": message}
    return msgspec.convert(wanted | stamped, _Node)


def _summed(line: dict[str, Any], text: str, boundary: Summed | None) -> Summed:
    return Summed(
        id=text_of(line.get("uuid")),
        text=text,
        at=read_time(line.get("timestamp")),
        tokens_before=None if boundary is None else boundary.tokens_before,
    )


def _usage(usage: dict[str, Any]) -> Usage | None:
    cached = usage.get("cache_read_input_tokens")
    created = usage.get("cache_creation_input_tokens")
    parts = (usage.get("input_tokens"), cached, created)
    read = sum(each for each in parts if isinstance(each, int) and each > 0)
    return usage_of(read=read, written=usage.get("output_tokens"), cached=cached, created=created)


def _model(name: object) -> str | None:
    return name if isinstance(name, str) and name != "<synthetic>" else None


def _plain_text(content: object) -> str:
    if isinstance(content, str):
        return content
    texts = [text_of(each.get("text")) for each in dicts_of(content)]
    return "\n\n".join(each for each in texts if each)


def _blob(block: dict[str, Any]) -> BlobLine | None:
    source = dict_of(block.get("source"))
    return blob_of(source.get("data"), source.get("media_type"))
