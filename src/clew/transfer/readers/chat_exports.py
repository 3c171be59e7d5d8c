"""Exports of chats on the web: ChatGPT, Claude.ai and Open WebUI, as one JSON document or a zip.

Each conversation is a tree, of which the active branch is the thread. None of them counts tokens.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from clew.transfer.jsonl import Line
from clew.transfer.readers.files import (
    MAX_DOCUMENT,
    Refused,
    dict_of,
    dicts_of,
    entry_of,
    open_own,
    parse_json,
    read_document,
    text_of,
)
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import (
    About,
    Answer,
    Entry,
    call_of,
    clean_line,
    make_lines,
    read_time,
    tool_said,
    user_said,
)

MEMBER: Final = "conversations.json"
_REASONING: Final = re.compile(
    r"<details type=\"reasoning\"[^>]*>\s*(?:<summary>.*?</summary>)?(.*?)</details>", re.DOTALL
)


class ChatExport:
    """What the three have in common: one document, read once for all of its conversations."""

    name = ""
    label = ""

    def __init__(self) -> None:
        self._document: tuple[str, list[dict[str, Any]]] | None = None

    def find(self, home: Home) -> Iterator[Source]:  # noqa: ARG002  # exports are where they are
        """See `Reader`. Nothing is found: a path must be named."""
        return iter(())

    def open(self, path: Path) -> Iterator[Source]:
        """See `Reader`."""
        path = path.resolve()
        if path.is_dir():
            path = path / MEMBER
        file = entry_of(path)
        if file is None:
            return
        chats = self._load(path)
        for number, chat in enumerate(chats):
            if not self.is_chat(chat):
                continue
            native = self.native(chat) or f"{path.stem} {number}"
            yield Source(
                agent=self.name,
                id=native,
                path=path,
                root=path.parent,
                stamp=self.stamp(chat),
                at=self.changed(chat) or file.at,
                size=file.size // max(1, len(chats)),
                inside=str(number),
            )

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        if not (first.lstrip().startswith((b"[", b"{")) or first.startswith(b"PK")):
            return False
        if path.suffix == ".jsonl":
            return False
        try:
            return any(map(self.is_chat, self._load(path.resolve())[:20]))
        except (OSError, Refused):
            return False

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        chat = self._load(source.path)[int(source.inside)]
        reading.advance(source.size)
        return make_lines(self.about(source, chat), self.entries(chat, reading))

    def _load(self, path: Path) -> list[dict[str, Any]]:
        file = entry_of(path)
        mark = f"{path}:{None if file is None else file.stamp}"
        if self._document is None or self._document[0] != mark:
            document = _read(path)
            chats = document if isinstance(document, list) else [document]
            self._document = (mark, [dict_of(each) for each in chats])
        return self._document[1]

    # --- what each of them says -----------------------------------------------------------------

    def is_chat(self, chat: dict[str, Any]) -> bool:
        """Whether a value of the document is a conversation of this kind."""
        raise NotImplementedError

    def native(self, chat: dict[str, Any]) -> str:
        """The id of a conversation."""
        return text_of(chat.get("uuid")) or text_of(chat.get("id"))

    def changed(self, chat: dict[str, Any]) -> int | None:
        """When a conversation was last changed."""
        return read_time(chat.get("updated_at")) or read_time(chat.get("created_at"))

    def stamp(self, chat: dict[str, Any]) -> str:
        """Changes whenever the conversation does."""
        return f"{self.changed(chat)}:{len(self.nodes(chat))}"

    def nodes(self, chat: dict[str, Any]) -> Mapping[str, Any]:
        """The messages of a conversation, by their ids."""
        raise NotImplementedError

    def about(self, source: Source, chat: dict[str, Any]) -> About:
        """What the document says about a conversation."""
        return About(
            agent=self.name,
            id=source.id,
            title=clean_line(chat.get("title") or chat.get("name"), 200),
            created_at=read_time(chat.get("create_time") or chat.get("created_at")),
        )

    def entries(self, chat: dict[str, Any], reading: Reading) -> Iterator[Entry]:
        """What was said."""
        raise NotImplementedError


def _read(path: Path) -> Any:
    with open_own(path, path.parent) as stream:
        if stream.read(2) != b"PK":
            return read_document(path, path.parent)
        stream.seek(0)
        try:
            with zipfile.ZipFile(stream) as archive:
                members = [each for each in archive.namelist() if Path(each).name == MEMBER]
                if not members:
                    raise Refused(f"There is no {MEMBER} in {path}.")
                with archive.open(members[0]) as member:
                    raw = member.read(MAX_DOCUMENT + 1)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            raise Refused(f"{path} is a damaged archive.") from error
    if len(raw) > MAX_DOCUMENT:
        raise Refused(f"{MEMBER} in {path} is longer than {MAX_DOCUMENT >> 20} MB.")
    try:
        return parse_json(raw)
    except ValueError as error:
        raise Refused(f"{MEMBER} in {path} can't be read as JSON.") from error


def _walk(nodes: Mapping[str, Any], leaf: str, parent: str, reading: Reading) -> list[str]:
    """The ids from the root to a leaf; the other leaves are noted as branches."""

    def chain(at: str) -> list[str]:
        found: dict[str, None] = {}
        while at in nodes and at not in found:
            found[at] = None
            at = text_of(dict_of(nodes[at]).get(parent))
        return list(found)[::-1]

    if reading.branch is not None:
        return chain(reading.branch)
    active = chain(leaf)
    parents = {text_of(dict_of(each).get(parent)) for each in nodes.values()}
    others = [each for each in nodes if each not in parents and each not in active]
    reading.branches = tuple(others)
    return active


class ChatGpt(ChatExport):
    """The reader of ChatGPT's export."""

    name = "chatgpt"
    label = "ChatGPT"

    def is_chat(self, chat: dict[str, Any]) -> bool:
        """See `ChatExport`."""
        return isinstance(chat.get("mapping"), dict)

    def native(self, chat: dict[str, Any]) -> str:
        """See `ChatExport`."""
        return text_of(chat.get("conversation_id")) or text_of(chat.get("id"))

    def changed(self, chat: dict[str, Any]) -> int | None:
        """See `ChatExport`."""
        return read_time(chat.get("update_time")) or read_time(chat.get("create_time"))

    def nodes(self, chat: dict[str, Any]) -> Mapping[str, Any]:
        """See `ChatExport`."""
        return dict_of(chat.get("mapping"))

    def stamp(self, chat: dict[str, Any]) -> str:
        """See `ChatExport`."""
        return f"{super().stamp(chat)}:{chat.get('current_node')}"

    def entries(self, chat: dict[str, Any], reading: Reading) -> Iterator[Entry]:
        """See `ChatExport`."""
        nodes = self.nodes(chat)
        answer: tuple[str, int | None, object, Answer] | None = None
        call = ""
        for native in _walk(nodes, text_of(chat.get("current_node")), "parent", reading):
            message = dict_of(dict_of(nodes[native]).get("message"))
            role = dict_of(message.get("author")).get("role")
            at = read_time(message.get("create_time"))
            if not message or dict_of(message.get("metadata")).get(
                "is_visually_hidden_from_conversation"
            ):
                continue
            if role == "assistant":
                model = dict_of(message.get("metadata")).get("model_slug")
                answer = answer or (native, at, model, Answer())
                call = _gpt_answer(native, message, answer[3], reading) or call
                continue
            if answer is not None and answer[3]:
                yield answer[3].said(answer[0], at=answer[1], model=answer[2])
            answer = None
            text = _gpt_text(message, reading)
            if role == "user" and text.strip():
                yield user_said(native, text, at=at)
            elif role == "tool" and call:
                yield tool_said(native, call, text, at=at)
                call = ""
            elif role != "system" and text.strip():
                reading.lost[f"messages of {clean_line(role, 40) or 'nobody'}"] += 1
        if answer is not None and answer[3]:
            yield answer[3].said(answer[0], at=answer[1], model=answer[2])


def _gpt_answer(native: str, message: dict[str, Any], answer: Answer, reading: Reading) -> str:
    """Add a message to an answer. Returns the id of the call that it makes, if it makes one."""
    content = dict_of(message.get("content"))
    recipient = text_of(message.get("recipient")) or "all"
    if content.get("content_type") == "thoughts":
        for each in dicts_of(content.get("thoughts")):
            answer.think(text_of(each.get("content")) or text_of(each.get("summary")))
        return ""
    if content.get("content_type") == "reasoning_recap":
        return ""
    text = _gpt_text(message, reading)
    if recipient == "all":
        answer.say(text)
        return ""
    answer.call(call_of(native, recipient, text))
    return native


def _gpt_text(message: dict[str, Any], reading: Reading) -> str:
    content = dict_of(message.get("content"))
    kind = content.get("content_type")
    if kind in ("user_editable_context", "model_editable_context"):
        return ""
    if isinstance(content.get("text"), str):
        return str(content["text"])
    texts = []
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(dict_of(part).get("text"), str):
            texts.append(part["text"])
        else:
            reading.lost["images and files that are not in the export"] += 1
    return "\n\n".join(each for each in texts if each)


class ClaudeAi(ChatExport):
    """The reader of Claude.ai's export."""

    name = "claude-ai"
    label = "Claude.ai"

    def is_chat(self, chat: dict[str, Any]) -> bool:
        """See `ChatExport`."""
        return isinstance(chat.get("chat_messages"), list)

    def nodes(self, chat: dict[str, Any]) -> Mapping[str, Any]:
        """See `ChatExport`."""
        rows = dicts_of(chat.get("chat_messages"))
        return {text_of(row.get("uuid")) or str(number): row for number, row in enumerate(rows)}

    def entries(self, chat: dict[str, Any], reading: Reading) -> Iterator[Entry]:
        """See `ChatExport`."""
        nodes = self.nodes(chat)
        leaf = text_of(chat.get("current_leaf_message_uuid")) or next(reversed(list(nodes)), "")
        ids = list(nodes)
        if any(dict_of(each).get("parent_message_uuid") for each in nodes.values()):
            ids = _walk(nodes, leaf, "parent_message_uuid", reading)
        for native in ids:
            message = dict_of(nodes[native])
            yield from _claude_message(native, message, reading)


def _claude_message(native: str, message: dict[str, Any], reading: Reading) -> Iterator[Entry]:
    at = read_time(message.get("created_at"))
    blocks = list(dicts_of(message.get("content")))
    lost = len(list(dicts_of(message.get("files"))))
    if lost:
        reading.lost["images and files that are not in the export"] += lost
    if message.get("sender") == "human":
        texts = [text_of(each.get("text")) for each in blocks if each.get("type") == "text"]
        attached = [
            text_of(each.get("extracted_content")) for each in dicts_of(message.get("attachments"))
        ]
        spoken = "\n\n".join(each for each in texts if each) or text_of(message.get("text"))
        text = "\n\n".join(each for each in (spoken, *attached) if each)
        if text.strip():
            yield user_said(native, text, at=at)
        return
    answer, results = Answer(), []
    for number, block in enumerate(blocks or [{"type": "text", "text": message.get("text")}]):
        match block.get("type"):
            case "text":
                answer.say(text_of(block.get("text")))
            case "thinking":
                answer.think(text_of(block.get("thinking")))
            case "tool_use":
                name = block.get("id") or f"{native}:{block.get('name')}"
                answer.call(call_of(name, block.get("name"), block.get("input")))
            case "tool_result":
                texts = [text_of(each.get("text")) for each in dicts_of(block.get("content"))]
                name = block.get("tool_use_id") or f"{native}:{block.get('name')}"
                failed = block.get("is_error") is True
                text = "\n\n".join(each for each in texts if each)
                results.append(tool_said(f"{native}:{number}", name, text, at=at, is_error=failed))
            case kind:
                reading.lost[f"{clean_line(kind, 40) or 'unnamed'} blocks"] += 1
    if answer:
        yield answer.said(native, at=at)
        yield from results


class OpenWebUi(ChatExport):
    """The reader of Open WebUI's export."""

    name = "open-webui"
    label = "Open WebUI"

    def is_chat(self, chat: dict[str, Any]) -> bool:
        """See `ChatExport`."""
        return isinstance(dict_of(dict_of(chat.get("chat")).get("history")).get("messages"), dict)

    def nodes(self, chat: dict[str, Any]) -> Mapping[str, Any]:
        """See `ChatExport`."""
        return dict_of(dict_of(dict_of(chat.get("chat")).get("history")).get("messages"))

    def stamp(self, chat: dict[str, Any]) -> str:
        """See `ChatExport`."""
        current = dict_of(dict_of(chat.get("chat")).get("history")).get("currentId")
        return f"{super().stamp(chat)}:{current}"

    def entries(self, chat: dict[str, Any], reading: Reading) -> Iterator[Entry]:
        """See `ChatExport`."""
        nodes = self.nodes(chat)
        leaf = text_of(dict_of(dict_of(chat.get("chat")).get("history")).get("currentId"))
        for native in _walk(nodes, leaf, "parentId", reading):
            message = dict_of(nodes[native])
            at, text = read_time(message.get("timestamp")), text_of(message.get("content"))
            if list(dicts_of(message.get("files"))):
                reading.lost["images and files that are not in the export"] += 1
            if message.get("role") == "user":
                if text.strip():
                    yield user_said(native, text, at=at)
                continue
            answer = Answer()
            for thought in _REASONING.findall(text):
                answer.think(thought.strip())
            answer.say(_REASONING.sub("", text).strip())
            if answer:
                yield answer.said(native, at=at, model=message.get("model"))
