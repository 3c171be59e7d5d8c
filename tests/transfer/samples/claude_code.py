"""A made session of Claude Code."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from tests.transfer.samples.talk import Exchange, Sample, Talk, iso, write_lines

CWD = "/home/me/notes"


def name(text: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, text))


class Writer:
    """Lines of one file, each the child of the one before."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.lines: list[dict[str, Any]] = []
        self.parent: str | None = None
        self.step = 0

    def line(self, kind: str, message: dict[str, Any] | None = None, **more: Any) -> str:
        self.step += 1
        native = name(f"{self.talk.native}:{self.step}:{message}")
        self.lines.append(
            {
                "parentUuid": self.parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": CWD,
                "sessionId": self.talk.native,
                "version": "2.0.14",
                "gitBranch": "main",
                "type": kind,
                "uuid": native,
                "timestamp": iso(self.talk.at(self.step)),
                **({} if message is None else {"message": message}),
                **more,
            }
        )
        self.parent = native
        return native

    def user(self, content: Any, **more: Any) -> str:
        return self.line("user", {"role": "user", "content": content}, **more)

    def assistant(self, native: str, *blocks: dict[str, Any], stop: str = "end_turn") -> None:
        """One line per block, as the program writes them."""
        for block in blocks:
            self.line(
                "assistant",
                {
                    "id": native,
                    "type": "message",
                    "role": "assistant",
                    "model": "claude-sonnet-4-5",
                    "content": [block],
                    "stop_reason": stop if block is blocks[-1] else None,
                    "stop_sequence": None,
                    "usage": {
                        "input_tokens": 10,
                        "cache_creation_input_tokens": 5,
                        "cache_read_input_tokens": 100,
                        "output_tokens": 7,
                    },
                },
                requestId=f"req_{native}",
            )

    def exchange(self, exchange: Exchange) -> None:
        mark = name(exchange.question)[:8]
        self.user(exchange.question)
        if exchange.command is not None:
            self.assistant(
                f"msg_{mark}a",
                {"type": "thinking", "thinking": "Let me look.", "signature": "c2ln"},
                {
                    "type": "tool_use",
                    "id": f"toolu_{mark}",
                    "name": "Bash",
                    "input": {"command": exchange.command},
                },
                stop="tool_use",
            )
            self.user(
                [
                    {
                        "type": "tool_result",
                        "tool_use_id": f"toolu_{mark}",
                        "content": exchange.result,
                        "is_error": False,
                    }
                ],
                toolUseResult={"stdout": exchange.result, "stderr": "", "interrupted": False},
            )
        self.assistant(f"msg_{mark}b", {"type": "text", "text": exchange.answer})


def write_claude_code(home: Path, talk: Talk) -> Path:
    writer = Writer(talk)
    snapshot = {"type": "file-history-snapshot", "messageId": name("s"), "isSnapshotUpdate": False}
    writer.lines.append(snapshot | {"snapshot": {"trackedFileBackups": {}}})
    for each in talk.exchanges[:1]:
        writer.exchange(each)
    knot, step = writer.parent, writer.step
    for each in talk.left:
        writer.exchange(each)
    if talk.left:
        writer.parent = knot
    else:
        writer.parent, writer.step = knot, step
    for each in talk.exchanges[1:]:
        writer.exchange(each)
    writer.lines.append({"type": "ai-title", "sessionId": talk.native, "aiTitle": talk.title})
    folder = home / ".claude" / "projects" / CWD.replace("/", "-")
    return write_lines(folder / f"{talk.native}.jsonl", writer.lines)


CLAUDE_CODE = Sample("claude-code", write_claude_code, branches=True)
