"""Codex: a JSON-lines file per session, `{timestamp, type, payload}`; the oldest have no envelope.

What was said is in the `response_item`s; `event_msg`s repeat it and are used for exit codes, usage
and turns that were rolled back. A forked session repeats the whole past of its parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.core.usage import Usage
from clew.transfer.jsonl import Line
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
    call_id_of,
    call_of,
    clean_line,
    data_url_blob,
    make_lines,
    read_time,
    todos_of,
    tool_said,
    usage_of,
    user_said,
)

_ROLLOUT: Final = re.compile(
    r"rollout-.*?(?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl"
)

# Text that the program puts before or between what the person says.
_INJECTED: Final = re.compile(
    r"\s*(?:<(?P<tag>environment_context|user_instructions|permissions instructions|turn_context|"
    r"user_shell_command|turn_aborted|collaboration_mode|skills_instructions|apps_instructions)"
    r"[ >].*|# AGENTS\.md instructions for .*)",
    re.DOTALL,
)

_SILENT: Final = ("world_state", "token_usage_record", "ghost_snapshot")
"""Kinds of lines that the program writes for itself."""

_EXIT: Final = re.compile(r"^Process exited with code (\d{1,3})$", re.MULTILINE)

_NOT_SAID: Final = (
    "agent_message",
    "user_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "task_started",
    "task_complete",
    "turn_started",
    "turn_complete",
    "exec_command_begin",
    "exec_command_output_delta",
    "patch_apply_begin",
    "patch_apply_end",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "web_search_begin",
    "web_search_end",
    "turn_diff",
    "item_completed",
    "agent_reasoning_section_break",
    "context_compacted",
    "thread_name_updated",
    "entered_review_mode",
    "exited_review_mode",
    "view_image_tool_call",
    "turn_aborted",
    "thread_settings_applied",
)


class Codex:
    """The reader of Codex' sessions."""

    name = "codex"
    label = "Codex"

    def find(self, home: Home) -> Iterator[Source]:
        """See `Reader`."""
        root = home.place("CODEX_HOME", ".codex")
        for part in ("sessions", "archived_sessions"):
            for file in list_files(root / part, root, _is_rollout, depth=3):
                yield self._source(file, root)

    def open(self, path: Path) -> Iterator[Source]:
        """See `Reader`."""
        path = path.resolve()
        root = path if path.is_dir() else path.parent
        for file in given_files(path, _is_rollout):
            yield self._source(file, root)

    def recognises(self, path: Path, first: bytes) -> bool:
        """See `Reader`."""
        line = parse_object(first.partition(b"\n")[0]) or {}
        payload = dict_of(line.get("payload"))
        if line.get("type") == "session_meta" and "id" in payload:
            return True
        return _is_rollout(path.name) and "id" in line and "timestamp" in line

    def _source(self, file: File, root: Path) -> Source:
        named = _ROLLOUT.fullmatch(file.path.name)
        return Source(
            agent=self.name,
            id=file.path.stem if named is None else named["id"],
            path=file.path,
            root=root,
            stamp=file.stamp,
            at=file.at,
            size=file.size,
        )

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """See `Reader`."""
        session = _Session(source, reading)
        session.load()
        entries = session.thread()
        about = About(
            agent=source.agent,
            id=source.id,
            title=_find_title(source),
            title_by="user",
            directory=session.cwd,
            model=session.model,
            created_at=session.began,
        )
        return make_lines(about, entries)


def _is_rollout(name: str) -> bool:
    return name.startswith("rollout-") and name.endswith(".jsonl")


def _find_title(source: Source) -> str | None:
    """The name in the index beside the sessions; its last entry wins."""
    title = None
    for folder in source.path.parents:
        index = folder / "session_index.jsonl"
        if folder == source.root or index.exists():
            try:
                with open_own(index, folder) as stream:
                    for raw in split_lines(stream):
                        line = parse_object(raw.data or b"") or {}
                        if line.get("id") == source.id:
                            title = clean_line(line.get("thread_name"), 200)
            except (OSError, ValueError):
                pass
            break
    return title


class _Session:
    """The reading of one file. It is held as a list of turns, because turns may be rolled back."""

    def __init__(self, source: Source, reading: Reading) -> None:
        self._source = source
        self._reading = reading
        self._turns: list[list[Entry]] = [[]]
        self._dropped: list[tuple[int, list[list[Entry]]]] = []
        self._exits: dict[str, int] = {}
        self._open: tuple[str, int | None, Answer] | None = None
        self._cut = False
        self._todos: Planned | None = None
        self._metas = 0
        self._number = 0
        self._now: int | None = None
        self.cwd: str | None = None
        self.model: str | None = None
        self.began: int | None = None

    def load(self) -> None:
        """Read the file."""
        with open_own(self._source.path, self._source.root) as stream:
            for raw in split_lines(stream):
                self._reading.advance(raw.size)
                if raw.data is not None and not raw.data.strip():
                    continue
                line = None if raw.data is None else parse_object(raw.data)
                self._cut = raw.data is not None and not raw.data.endswith(b"\n")
                if line is None:
                    self._reading.broken += 1
                    continue
                self._number += 1
                self._take(line)
        if self._open is not None:
            if self._reading.settled and not self._cut:
                self._close()
            else:
                self._reading.held_back = True

    def thread(self) -> Iterator[Entry]:
        """What was said, in the branch that is asked for."""
        turns = self._turns
        self._reading.branches = tuple(str(at) for at in range(len(self._dropped)))
        if self._reading.branch is not None:
            kept, dropped = self._dropped[int(self._reading.branch)]
            turns = [*self._turns[:kept], *dropped]
        for turn in turns:
            for entry in turn:
                yield self._with_exit(entry)
        if self._todos is not None:
            yield self._todos

    def _with_exit(self, entry: Entry) -> Entry:
        """A result with the exit code that another line has for it."""
        if not isinstance(entry, Said) or entry.draft.role != "tool":
            return entry
        if not self._exits.get(entry.draft.tool_call_id or ""):
            return entry
        return msgspec.structs.replace(
            entry, draft=msgspec.structs.replace(entry.draft, is_error=True)
        )

    def _close(self, usage: Usage | None = None) -> None:
        """End the answer that is being put together."""
        if self._open is not None:
            (native, at, answer), self._open = self._open, None
            self._turns[-1].append(answer.said(native, at=at, model=self.model, usage=usage))

    def _add(self, entry: Entry) -> None:
        self._close()
        if isinstance(entry, Said) and entry.begins and self._turns[-1]:
            self._turns.append([])
        self._turns[-1].append(entry)

    def _take(self, line: dict[str, Any]) -> None:
        kind, payload = line.get("type"), line.get("payload")
        at = read_time(line.get("timestamp"))
        self._now = at or self._now
        if not isinstance(payload, dict):
            self._take_bare(line)
            return
        match kind:
            case "session_meta":
                self._take_meta(payload)
            case "response_item":
                self._take_item(payload, at)
            case "event_msg":
                self._take_event(payload)
            case "turn_context":
                self.model = clean_line(payload.get("model"), 200) or self.model
                self.cwd = self.cwd or clean_line(payload.get("cwd"), 1_000)
            case "compacted":
                self._add(Summed(id=str(self._number), text=text_of(payload.get("message")), at=at))
            case _ if kind not in _SILENT:
                self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} lines"] += 1

    def _take_bare(self, line: dict[str, Any]) -> None:
        """A line of the oldest format: the first is the session, the others are items."""
        if "type" in line:
            self._take_item(line, None)
        elif "id" in line and "timestamp" in line:
            self._take_meta(line)
        elif "record_type" not in line:
            self._reading.lost["unnamed lines"] += 1

    def _take_meta(self, payload: dict[str, Any]) -> None:
        self._metas += 1
        if self._metas == 1:
            self.began = read_time(payload.get("timestamp"))
            self.cwd = clean_line(payload.get("cwd"), 1_000)

    # --- items --------------------------------------------------------------------------------

    def _take_item(self, item: dict[str, Any], at: int | None) -> None:
        native = text_of(item.get("id")) or str(self._number)
        native = f"{self._number}:{native}"
        match item.get("type"):
            case "message":
                self._take_message(native, item, at)
            case "reasoning":
                pieces = (*dicts_of(item.get("summary")), *dicts_of(item.get("content")))
                thought = "\n\n".join(text_of(each.get("text")) for each in pieces)
                if thought.strip():
                    self._answer(native, at).think(thought)
            case "function_call":
                self._call(native, item, item.get("arguments"), at)
                if item.get("name") == "update_plan":
                    plan = parse_object(text_of(item.get("arguments"))) or {}
                    self._todos = todos_of(plan.get("plan"), "step") or self._todos
            case "custom_tool_call":
                self._call(native, item, {"input": item.get("input")}, at)
            case "local_shell_call":
                self._call(native, {**item, "name": "local_shell"}, item.get("action"), at)
            case "web_search_call":
                self._call(native, {**item, "name": "web_search"}, item.get("action"), at)
                if not item.get("call_id"):
                    self._add(tool_said(f"{native}:r", native, "", at=at))
            case "function_call_output" | "custom_tool_call_output":
                text, failed = _output(item.get("output"))
                self._add(tool_said(native, item.get("call_id"), text, at=at, is_error=failed))
            case kind:
                self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} items"] += 1

    def _take_message(self, native: str, item: dict[str, Any], at: int | None) -> None:
        pieces = dicts_of(item.get("content"))
        text = "\n\n".join(text_of(each.get("text")) for each in pieces if each.get("text"))
        blobs = [data_url_blob(each.get("image_url")) for each in pieces]
        match item.get("role"):
            case "user" if _INJECTED.fullmatch(text):
                self._reading.lost["instructions of the program"] += 1
            case "user":
                files = [each for each in blobs if each is not None]
                if text.strip() or files:
                    self._add(user_said(native, text, at=at, blobs=files))
            case "assistant":
                if text:
                    self._answer(native, at).say(text)
            case _:
                self._reading.lost["instructions of the program"] += 1

    def _call(self, native: str, item: dict[str, Any], arguments: object, at: int | None) -> None:
        call = call_of(item.get("call_id") or native, item.get("name"), arguments)
        self._answer(native, at).call(call)

    def _answer(self, native: str, at: int | None) -> Answer:
        """The answer that is being put together: the items of one response are one message."""
        if self._open is None:
            self._open = (native, at, Answer())
        return self._open[2]

    # --- events -------------------------------------------------------------------------------

    def _take_event(self, payload: dict[str, Any]) -> None:
        match payload.get("type"):
            case "token_count":
                used = dict_of(dict_of(payload.get("info")).get("last_token_usage"))
                self._spend(_usage(used))
            case "exec_command_end":
                code = payload.get("exit_code")
                if isinstance(code, int):
                    self._exits[call_id_of(payload.get("call_id"))] = code
            case "thread_rolled_back":
                self._roll_back(payload.get("num_turns"))
            case "error" | "stream_error":
                self._fail(clean_line(payload.get("message"), 500))
            case kind if kind not in _NOT_SAID:
                self._reading.lost[f"{clean_line(kind, 40) or 'unnamed'} events"] += 1

    def _spend(self, usage: Usage | None) -> None:
        """Give the usage of a request to the last answer, which it was for."""
        if self._open is not None:
            self._close(usage)
            return
        for at in range(len(self._turns[-1]) - 1, -1, -1):
            entry = self._turns[-1][at]
            if isinstance(entry, Said) and entry.draft.role == "assistant":
                if usage is not None and entry.draft.usage is None:
                    draft = msgspec.structs.replace(entry.draft, usage=usage)
                    self._turns[-1][at] = msgspec.structs.replace(entry, draft=draft)
                return

    def _roll_back(self, turns: object) -> None:
        if not isinstance(turns, int) or turns <= 0:
            return
        self._close()
        begun = [at for at, turn in enumerate(self._turns) if _is_turn(turn)]
        if not begun:
            return
        cut = begun[-turns] if turns <= len(begun) else begun[0]
        self._dropped.append((cut, self._turns[cut:]))
        self._turns[cut:] = [[]]

    def _fail(self, error: str | None) -> None:
        self._close()
        if error and self._turns[-1] and isinstance(self._turns[-1][-1], Said):
            last = self._turns[-1][-1]
            self._turns[-1][-1] = msgspec.structs.replace(last, error=error)


def _is_turn(turn: list[Entry]) -> bool:
    return bool(turn) and isinstance(turn[0], Said) and turn[0].begins


def _output(output: object) -> tuple[str, bool]:
    """The text of a result, and whether it failed; it comes in four shapes."""
    if isinstance(output, list):
        return "\n\n".join(text_of(each.get("text")) for each in dicts_of(output)), False
    if isinstance(output, dict):
        body = output.get("content")
        text = body if isinstance(body, str) else _output(body)[0]
        return text, output.get("success") is False
    text = text_of(output)
    inner = parse_object(text) if text.startswith('{"output"') else None
    if inner is None:
        ended = _EXIT.search(text.partition("\nOutput:\n")[0])
        return text, ended is not None and int(ended[1]) != 0
    code = dict_of(inner.get("metadata")).get("exit_code")
    return text_of(inner.get("output")), isinstance(code, int) and code != 0


def _usage(used: dict[str, Any]) -> Usage | None:
    return usage_of(
        read=used.get("input_tokens"),
        written=used.get("output_tokens"),
        cached=used.get("cached_input_tokens"),
        created=used.get("cache_write_input_tokens"),
    )
