"""Requests and answers in OpenAI's shapes: what a body asks for, and what a turn is told as.

Pure. The two APIs, chat completions and responses, have a request, an answer and a stream each.
`openai_door` takes a message from the first and fills the others. Settings of sampling
(`temperature`, `max_tokens`, …) are accepted and have no effect; what would change the meaning of
an answer, such as tools of the caller, is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from clew.api.operation import Params
from clew.core.text import to_wire
from clew.core.turn import Turn
from clew.errors import InvalidInput

AGENT: Final = "clew"
"""The model that stands for clew's agent with its own choice of a model."""
INSTRUCTING: Final = ("system", "developer")
DONE: Final = b"data: [DONE]\n\n"

Messages = Annotated[tuple[dict[str, Any], ...], Meta(min_length=1, max_length=10_000)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Model = Annotated[str, Meta(min_length=1, max_length=200)]


class CompletionRequest(Params, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A request for a chat completion; other fields of OpenAI's are ignored.

    `conversation`, the header `X-Clew-Conversation` or `user` names a session of this token. Then
    only the last message is sent to it. Without a name, every request begins a session, and the
    earlier messages go along as a quote.
    """

    messages: Messages
    model: Model = AGENT
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    conversation: Name | None = None
    user: Name | None = None
    n: int | None = None
    tools: Any = None
    functions: Any = None
    logprobs: Any = None
    top_logprobs: Any = None
    response_format: Any = None
    audio: Any = None


class ResponseRequest(Params, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A request for a response; see `CompletionRequest`."""

    input: str | Messages
    model: Model = AGENT
    instructions: str | None = None
    stream: bool | None = None
    conversation: Name | dict[str, Any] | None = None
    user: Name | None = None
    tools: Any = None
    text: Any = None
    top_logprobs: Any = None
    previous_response_id: Any = None
    prompt: Any = None
    background: Any = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for. `message` has the fields of a `SendChat`."""

    message: dict[str, Any]
    model: str | None
    name: str | None
    is_streamed: bool
    has_usage: bool = True
    """Whether a stream ends with the usage."""


# --- reading ------------------------------------------------------------------------------------
def read_completion(request: CompletionRequest) -> Asked:
    """What a request for a chat completion asks for; `InvalidInput` for what clew can't do."""
    _refuse("tools", request.tools or request.functions)
    _refuse("n", request.n not in (None, 1), "One answer is given to each request.")
    _refuse("logprobs", request.logprobs or request.top_logprobs)
    _refuse("response_format", _kind_of(request.response_format) not in ("", "text"))
    _refuse("audio", request.audio)
    options = request.stream_options or {}
    return Asked(
        message=_read_talk(list(request.messages), ""),
        model=None if request.model == AGENT else request.model,
        name=request.conversation or request.user,
        is_streamed=bool(request.stream),
        has_usage=bool(options.get("include_usage")),
    )


def read_response(request: ResponseRequest) -> Asked:
    """What a request for a response asks for; `InvalidInput` for what clew can't do."""
    _refuse("tools", request.tools)
    _refuse("top_logprobs", request.top_logprobs)
    _refuse("background", request.background)
    _refuse("prompt", request.prompt)
    _refuse(
        "previous_response_id",
        request.previous_response_id,
        "Name a conversation instead: it keeps what was said.",
    )
    form = request.text.get("format") if isinstance(request.text, Mapping) else None
    _refuse("text.format", _kind_of(form) not in ("", "text"))
    given = request.input
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    return Asked(
        message=_read_talk(items, request.instructions or ""),
        model=None if request.model == AGENT else request.model,
        name=_read_name(request.conversation) or request.user,
        is_streamed=bool(request.stream),
    )


def _refuse(what: str, given: object, advice: str = "The agent has tools of its own.") -> None:
    if given:
        why = advice if what in ("tools", "n", "previous_response_id") else "Leave it out."
        raise InvalidInput(f"clew does not do `{what}`. {why} Nothing was sent.")


def _kind_of(given: object) -> str:
    return str(given.get("type", "?")) if isinstance(given, Mapping) else "?" if given else ""


def _read_name(given: str | dict[str, Any] | None) -> str | None:
    if not isinstance(given, dict):
        return given
    name = given.get("id")
    if not isinstance(name, str) or not name:
        raise InvalidInput("conversation has to be a name, or an object with its `id`.")
    return name


def _read_talk(items: Sequence[Mapping[str, Any]], instructions: str) -> dict[str, Any]:
    """The message, the instructions and what was said before, of a list of messages."""
    orders = [instructions] if instructions else []
    said: list[Mapping[str, Any]] = []
    for each in items:
        if each.get("role") in INSTRUCTING:
            orders.append(_text_of(each.get("content")))
        elif each.get("type") != "reasoning":
            said.append(each)
    if not said or said[-1].get("role") != "user":
        raise InvalidInput("The last message has to be the user's. Nothing was sent.")
    message: dict[str, Any] = {
        "text": _text_of(said[-1].get("content")),
        "attachments": list(_files_of(said[-1].get("content"))),
        "earlier": [_read_earlier(each) for each in said[:-1]],
    }
    return message | ({"instructions": "\n\n".join(orders)} if orders else {})


def _read_earlier(item: Mapping[str, Any]) -> dict[str, str]:
    kind, role = item.get("type"), item.get("role")
    if kind == "function_call":
        return {"role": "assistant", "text": f"[calls {item.get('name')}] {item.get('arguments')}"}
    if kind == "function_call_output":
        return {"role": "tool", "text": _text_of(item.get("output"))}
    if role not in ("user", "assistant", "tool", "function"):
        raise InvalidInput(f'"{str(role or kind)[:40]}" can\'t be read as a message.')
    text = _text_of(item.get("content"))
    calls = item.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        called = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(called, Mapping):
            text += f"\n[calls {called.get('name')}] {called.get('arguments')}"
    files = len([*_parts_of(item.get("content"), FILES)])
    text += "\n[a file]" * files
    return {"role": "tool" if role == "function" else role, "text": text.strip()}


TEXTS: Final = ("text", "input_text", "output_text", "refusal")
FILES: Final = ("image_url", "input_image", "file", "input_file")


def _parts_of(content: object, kinds: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The parts of a message that are of these kinds; any other part is refused."""
    for each in content if isinstance(content, list | tuple) else ():
        kind = each.get("type") if isinstance(each, Mapping) else None
        if kind not in (*TEXTS, *FILES):
            raise InvalidInput(f'A part of the type "{str(kind)[:40]}" can\'t be read.')
        if kind in kinds:
            yield each


def _text_of(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise InvalidInput("The content of a message has to be text, or a list of parts.")
    texts = [each.get("text") or each.get("refusal") or "" for each in _parts_of(content, TEXTS)]
    if not all(isinstance(each, str) for each in texts):
        raise InvalidInput("The text of a part has to be text.")
    return "\n".join(texts)


def _files_of(content: object) -> Iterator[dict[str, Any]]:
    """The files of a message, as the fields of uploads."""
    for part in _parts_of(content, FILES):
        url, name = _find_url(part)
        head, comma, data = url.partition(",")
        media_type = head.removeprefix("data:").removesuffix(";base64")
        if not comma or not head.startswith("data:") or not head.endswith(";base64"):
            raise InvalidInput(
                "A file has to come along, as `data:TYPE;base64,…`: clew fetches nothing from "
                "addresses. Nothing was sent."
            )
        yield {"media_type": media_type, "data": data} | ({"name": name} if name else {})


def _find_url(part: Mapping[str, Any]) -> tuple[str, str | None]:
    held = part.get("image_url") or part.get("file") or part
    if isinstance(held, str):
        return held, None
    if not isinstance(held, Mapping):
        return "", None
    url, name = held.get("url") or held.get("file_data"), held.get("filename")
    return str(url or ""), name if isinstance(name, str) and name else None


# --- a turn as it is told -----------------------------------------------------------------------
class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A turn as an answer: the inbox id of its message, its session, its texts, and its end."""

    inbound: str
    session: str
    created: int
    texts: tuple[str, ...]
    refused: tuple[str, ...]
    turn: Turn | None
    name: str | None = None

    @property
    def model(self) -> str:
        """The model that answered."""
        return (self.turn.model if self.turn is not None else None) or AGENT

    @property
    def text(self) -> str:
        """All that was said, with a word on what was refused."""
        note = note_refused(self.refused)
        return "\n\n".join([*self.texts, *([note] if note else [])])

    @property
    def about(self) -> dict[str, Any]:
        """Where the answer is kept; the one field that OpenAI does not have."""
        turn = None if self.turn is None else self.turn.id
        return {"session": self.session, "turn": turn, "refused": list(self.refused)}


def note_refused(tools: Iterable[str]) -> str:
    """What is said about tools that would have needed an approval; empty without any."""
    names = ", ".join(dict.fromkeys(tools))
    if not names:
        return ""
    return f"[Refused, because nobody can be asked for approval here: {names}.]"


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A chat completion. `clew` says in which session and turn it is kept."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any] | None = None
    clew: dict[str, Any] = {}


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """A response. `clew` says in which session and turn it is kept."""

    id: str
    object: str
    created_at: int
    status: str
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    conversation: dict[str, Any] | None = None
    incomplete_details: None = None
    instructions: None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: bool = False
    tool_choice: str = "none"
    tools: list[Any] = []
    temperature: None = None
    top_p: None = None
    clew: dict[str, Any] = {}


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a request can name."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "clew"


class ModelPage(msgspec.Struct, frozen=True, kw_only=True):
    """The models that a request can name: `clew`, and for the owner those of the configuration."""

    data: list[ModelEntry]
    object: str = "list"


def make_completion(told: Told) -> Completion:
    """The answer to a request for a chat completion."""
    message = {"role": "assistant", "content": told.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return Completion(
        id=f"chatcmpl-{told.inbound}",
        object="chat.completion",
        created=told.created,
        model=told.model,
        choices=[choice],
        usage=_completion_usage(told.turn),
        clew=told.about,
    )


def make_response(told: Told, status: str = "completed", error: str | None = None) -> Response:
    """The answer to a request for a response; before its turn ends, without content."""
    return Response(
        id=f"resp_{told.inbound}",
        object="response",
        created_at=told.created,
        status=status,
        model=told.model,
        output=[_item(told)] if status == "completed" else [],
        usage=_response_usage(told.turn),
        error=None if error is None else {"code": "server_error", "message": error},
        conversation=None if told.name is None else {"id": told.name},
        clew=told.about,
    )


def _item(told: Told, text: str | None = None, status: str = "completed") -> dict[str, Any]:
    said = told.text if text is None else text
    content = [_content(said)] if status == "completed" else []
    return {
        "id": f"msg_{told.inbound}", "type": "message", "role": "assistant", "status": status,
        "content": content,
    }  # fmt: skip


def _content(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _completion_usage(turn: Turn | None) -> dict[str, Any] | None:
    if turn is None:
        return None
    used = turn.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
    }


def _response_usage(turn: Turn | None) -> dict[str, Any] | None:
    if turn is None:
        return None
    used = turn.usage
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {
            "cached_tokens": used.cache_read_tokens, "cache_write_tokens": 0
        },
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.input_tokens + used.output_tokens,
    }  # fmt: skip


# --- streams ------------------------------------------------------------------------------------
class CompletionStream:
    """The events of a streamed chat completion. `has_usage`: the last one has the usage."""

    def __init__(self, *, has_usage: bool) -> None:
        self._has_usage = has_usage

    def begin(self, told: Told) -> bytes:
        """The first events."""
        return self._chunk(told, {"role": "assistant", "content": ""})

    def add(self, told: Told, piece: str) -> bytes:
        """A piece of the text."""
        return self._chunk(told, {"content": piece})

    def end(self, told: Told) -> bytes:
        """The last events."""
        last = self._chunk(told, {}, "stop")
        if self._has_usage:
            usage = _completion_usage(told.turn)
            last += self._send(told, choices=[], usage=usage, clew=told.about)
        return last + DONE

    def fail(self, _told: Told, error: dict[str, Any]) -> bytes:
        """The end of a turn without an answer; `error` is OpenAI's object."""
        return _event({"error": error})

    def _chunk(self, told: Told, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._send(told, choices=[choice])

    def _send(self, told: Told, **more: Any) -> bytes:
        head = {
            "id": f"chatcmpl-{told.inbound}", "object": "chat.completion.chunk",
            "created": told.created, "model": told.model,
        }  # fmt: skip
        return _event(head | more)


class ResponseStream:
    """The events of a streamed response."""

    def __init__(self) -> None:
        self._number = 0
        self._said: list[str] = []

    def begin(self, told: Told) -> bytes:
        """The first events."""
        response = make_response(told, "in_progress")
        return b"".join(
            [
                self._send("response.created", response=response),
                self._send("response.in_progress", response=response),
                self._send(
                    "response.output_item.added",
                    output_index=0,
                    item=_item(told, status="in_progress"),
                ),
                self._in_part(told, "response.content_part.added", part=_content("")),
            ]
        )

    def add(self, told: Told, piece: str) -> bytes:
        """A piece of the text."""
        self._said.append(piece)
        return self._in_part(told, "response.output_text.delta", delta=piece, logprobs=[])

    def end(self, told: Told) -> bytes:
        """The last events."""
        # What was streamed: it differs from the answer where an attempt had to be repeated.
        text = "".join(self._said)
        item = _item(told, text)
        done = msgspec.structs.replace(make_response(told), output=[item])
        return b"".join(
            [
                self._in_part(told, "response.output_text.done", text=text, logprobs=[]),
                self._in_part(told, "response.content_part.done", part=_content(text)),
                self._send("response.output_item.done", output_index=0, item=item),
                self._send("response.completed", response=done),
            ]
        )

    def fail(self, told: Told, error: dict[str, Any]) -> bytes:
        """The end of a turn without an answer; `error` is OpenAI's object."""
        failed = make_response(told, "failed", str(error.get("message")))
        return self._send("response.failed", response=failed)

    def _in_part(self, told: Told, kind: str, **more: Any) -> bytes:
        place = {"item_id": f"msg_{told.inbound}", "output_index": 0, "content_index": 0}
        return self._send(kind, **place, **more)

    def _send(self, kind: str, **more: Any) -> bytes:
        told = {"type": kind, "sequence_number": self._number} | more
        self._number += 1
        return b"event: " + kind.encode() + b"\n" + _event(told)


def _event(data: Any) -> bytes:
    return b"data: " + to_wire(data) + b"\n\n"
