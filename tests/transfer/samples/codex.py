"""A made session of Codex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.transfer.samples.talk import Exchange, Sample, Talk, dump, iso, write_lines


class Writer:
    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.lines: list[dict[str, Any]] = []
        self.step = 0

    def line(self, kind: str, payload: dict[str, Any]) -> None:
        self.lines.append(
            {"timestamp": iso(self.talk.at(self.step)), "type": kind, "payload": payload}
        )

    def item(self, **payload: Any) -> None:
        self.step += 1
        self.line("response_item", payload)

    def event(self, **payload: Any) -> None:
        self.line("event_msg", payload)

    def counted(self) -> None:
        usage = {"input_tokens": 115, "cached_input_tokens": 100, "output_tokens": 7,
                 "reasoning_output_tokens": 2, "total_tokens": 122}  # fmt: skip
        self.event(type="token_count", info={"last_token_usage": usage, "total_token_usage": usage})

    def exchange(self, number: int, each: Exchange) -> None:
        said = [{"type": "input_text", "text": each.question}]
        self.item(type="message", role="user", content=said)
        self.event(type="user_message", message=each.question)
        if each.command is not None:
            call = f"call_{number}"
            self.item(
                type="reasoning",
                summary=[{"type": "summary_text", "text": "Let me look."}],
                content=None,
                encrypted_content="gAAA",
            )
            self.event(type="agent_reasoning", text="Let me look.")
            arguments = f'{{"command":["bash","-lc","{each.command}"]}}'
            self.item(type="function_call", name="shell", arguments=arguments, call_id=call)
            self.counted()
            self.event(type="exec_command_end", call_id=call, exit_code=0, stdout=each.result)
            output = dump({"output": each.result, "metadata": {"exit_code": 0}}).strip()
            output = output.replace('{"output": ', '{"output":')
            self.item(type="function_call_output", call_id=call, output=output)
        answer = [{"type": "output_text", "text": each.answer}]
        self.item(type="message", role="assistant", content=answer)
        self.event(type="agent_message", message=each.answer)
        self.counted()


def write_codex(home: Path, talk: Talk) -> Path:
    writer = Writer(talk)
    meta = {
        "id": talk.native,
        "timestamp": iso(talk.at(0)),
        "cwd": "/home/me/notes",
        "originator": "codex_cli_rs",
        "cli_version": "0.46.0",
        "instructions": None,
    }
    writer.line("session_meta", meta)
    context = "<environment_context>\n  <cwd>/home/me/notes</cwd>\n</environment_context>"
    writer.item(type="message", role="user", content=[{"type": "input_text", "text": context}])
    writer.line("turn_context", {"cwd": "/home/me/notes", "model": "gpt-5-codex"})
    for number, each in enumerate(talk.exchanges[:1]):
        writer.exchange(number, each)
    for number, each in enumerate(talk.left, 1):
        writer.exchange(number, each)
    if talk.left:
        writer.event(type="thread_rolled_back", num_turns=len(talk.left))
    for number, each in enumerate(talk.exchanges[1:], 1):
        writer.exchange(number, each)
    root = home / ".codex"
    names = [
        {"id": talk.native, "thread_name": "older"},
        {"id": talk.native, "thread_name": talk.title},
    ]
    write_lines(root / "session_index.jsonl", names)
    path = (
        root
        / "sessions"
        / "2025"
        / "10"
        / "09"
        / f"rollout-2025-10-09T08-53-20-{talk.native}.jsonl"
    )
    return write_lines(path, writer.lines)


CODEX = Sample("codex", write_codex, branches=True)
