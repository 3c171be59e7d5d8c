"""A model that follows a script: real streaming, real errors, no network, the same every time.

It stands where a provider's model stands, so that everything above it is the real thing. Use it in
a test of your own, or from the command line:

    [providers.script]
    kind = "python"
    factory = "clew.testing.scripted:open_model"
    base_url = "/path/to/script.json"       # then `script/anything` is its name

Without `base_url` the path is the model's id: `script//path/to/script.json`. A script is a JSON
list of answers, or an object:

    {"answers": [...],                      the first, second, … answer of a conversation
     "rules": [{"when": "weather", "answers": [...]}],
     "title": "A title",                    the answer when it is asked for a title
     "log": "requests.jsonl"}               every request it gets, one JSON line each

**Which answer comes** follows from the request alone, never from memory: after a restart the
script goes on where the conversation is. Of `answers`, it is the one at the number of assistant
messages in the request. A rule whose `when` (a regular expression) is found in the last user
message comes first; of its answers, it is the one at the number of assistant messages since then.
After the end of a list its last answer comes again.

An answer is a text, or an object of:

    text         what it says, in chunks of `chunk` characters (8)
    thinking     what it thinks first, with an optional `signature`
    tool_calls   [{"name": "read_file", "arguments": {...} or "raw JSON text", "id": "call_1"}]
    echo         "user", "results", "instructions" or "thread": say what was sent, after `text`
    finish       "stop", "length", "content_filter", …
    usage        {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0}; null for "not told"
    delay        seconds before each chunk
    touch        a file to make when the answer begins
    hold         a file to wait for, after the first chunk of text (or before the calls)
    error        {"status": 401, "body": {...}, "headers": {...}}, "connection" or "timeout"
    errors       a list of those: one for each attempt at this very request, then the answer
    break_after  chunks of text after which the connection is lost
    expect       {"user": "…", "results": ["…"], "instructions": "…", "tools": ["…"]}: parts of
                 what must have been sent; `ScriptError` if they were not

`errors` and `break_after` count the attempts of this process; all else is stateless.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic_ai import exceptions
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from clew.core.names import TITLE_INSTRUCTION

POLL = 0.02
CATEGORIES: dict[int, Any] = {
    400: exceptions.ModelRequestRejectedError,
    401: exceptions.ModelAuthenticationError,
    402: exceptions.ModelQuotaExceededError,
    403: exceptions.ModelAuthenticationError,
    404: exceptions.ModelNotFoundError,
    413: exceptions.ModelContextWindowExceededError,
    429: exceptions.ModelRateLimitError,
    503: exceptions.ModelUnavailableError,
    529: exceptions.ModelOverloadedError,
}
"""What a status means, as providers' own models read it; from 500 on it is the server's fault."""


class ScriptError(AssertionError):
    """The script does not fit what happened: an unexpected request, or no answer for it."""


def open_model(model_id: str, *, base_url: str | None = None, **_: Any) -> Model[Any]:
    """The model for a script file: at `base_url` if that is set, else where the id says."""
    path = Path(base_url or model_id)
    return ScriptedModel(json.loads(path.read_text(encoding="utf-8")))


class ScriptedModel(Model[Any]):
    """Answers as its script says. See the module for what a script is."""

    def __init__(
        self, script: Sequence[Any] | dict[str, Any], *, log: str | Path | None = None
    ) -> None:
        super().__init__()
        told: dict[str, Any] = script if isinstance(script, dict) else {"answers": script}
        self._answers = list(told.get("answers", ()))
        self._rules = list(told.get("rules", ()))
        self._title = told.get("title", "")
        path = log or told.get("log")
        self._log = Path(path) if path else None
        self._attempts: Counter[object] = Counter()

    @property
    def model_name(self) -> str:
        """The model name in its answers."""
        return "scripted"

    @property
    def system(self) -> str:
        """The provider that its signatures belong to."""
        return "scripted"

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """The whole answer at once."""
        async with self.request_stream(
            messages, model_settings, model_request_parameters
        ) as stream:
            async for _ in stream:
                pass
            return stream.get()

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,  # noqa: ARG002  # the library's signature
    ) -> AsyncGenerator[StreamedResponse]:
        """The answer in pieces."""
        model_settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        sent = Sent(messages, parameters)
        self._write_log(sent.as_json(model_settings))
        answer = self._choose(sent)
        _check(answer, sent)
        attempt = self._attempts[sent.place]
        self._attempts[sent.place] += 1
        _touch(answer.get("touch"))
        _raise_error(answer, attempt)
        if attempt:
            answer = {name: value for name, value in answer.items() if name != "break_after"}
        yield ScriptedStream(parameters, answer, sent)

    def _write_log(self, line: str) -> None:
        if self._log is not None:
            with self._log.open("a", encoding="utf-8", errors="surrogatepass") as file:
                file.write(line + "\n")

    def _choose(self, sent: Sent) -> dict[str, Any]:
        if TITLE_INSTRUCTION in sent.instructions:
            return _pick([self._title], 0)
        for rule in self._rules:
            if re.search(rule["when"], sent.user):
                return _pick(rule["answers"], sent.answers_since_user)
        return _pick(self._answers, sent.answers)


class ScriptedStream(StreamedResponse):
    """An answer while it streams."""

    def __init__(
        self, parameters: ModelRequestParameters, answer: dict[str, Any], sent: Sent
    ) -> None:
        super().__init__(model_request_parameters=parameters)
        self._answer = answer
        self._sent = sent
        self._began = datetime.now(UTC)

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        answer = self._answer
        if thinking := answer.get("thinking"):
            for event in self._parts_manager.handle_thinking_delta(
                vendor_part_id="thinking",
                content=thinking,
                signature=answer.get("signature"),
                provider_name=self.provider_name,
            ):
                yield event
        text = answer.get("text", "")
        if "echo" in answer:
            text += self._sent.quote(answer["echo"])
        async for event in self._say(text):
            yield event
        for place, call in enumerate(answer.get("tool_calls", ())):
            arguments = call.get("arguments", {})
            yield self._parts_manager.handle_tool_call_part(
                vendor_part_id=f"call {place}",
                tool_name=call["name"],
                args=arguments if isinstance(arguments, str) else json.dumps(arguments),
                tool_call_id=call.get("id", f"call_{self._sent.answers}_{place}"),
            )
        self._finish(text)

    async def _say(self, text: str) -> AsyncIterator[ModelResponseStreamEvent]:
        answer = self._answer
        size = max(1, int(answer.get("chunk", 8)))
        hold = answer.get("hold")
        for count, start in enumerate(range(0, len(text), size)):
            if count == answer.get("break_after"):
                raise exceptions.ModelConnectionError("scripted", "the script lost the connection")
            if "delay" in answer:
                await asyncio.sleep(answer["delay"])
            for event in self._parts_manager.handle_text_delta(
                vendor_part_id="text", content=text[start : start + size]
            ):
                yield event
            if hold is not None:
                await _wait_for(Path(hold))
        if hold is not None:
            await _wait_for(Path(hold))

    def _finish(self, text: str) -> None:
        answer = self._answer
        self.finish_reason = answer.get(
            "finish", "tool_call" if answer.get("tool_calls") else "stop"
        )
        estimate = {"input": len(str(self._sent.messages)) // 4, "output": len(text) // 4 + 1}
        usage = answer.get("usage", estimate)
        if usage is None:
            self._usage = RequestUsage(unmeasured_requests=1)
            return
        self._usage = RequestUsage(
            input_tokens=usage.get("input", 0),
            output_tokens=usage.get("output", 0),
            cache_read_tokens=usage.get("cache_read", 0),
            cache_write_tokens=usage.get("cache_write", 0),
        )

    async def close_stream(self) -> None:
        """Nothing to close."""

    @property
    def model_name(self) -> str:
        """The model's name."""
        return "scripted"

    @property
    def provider_name(self) -> str:
        """The provider of the signatures."""
        return "scripted"

    @property
    def provider_url(self) -> None:
        """There is no address."""

    @property
    def timestamp(self) -> datetime:
        """When the answer began."""
        return self._began


def _pick(answers: Sequence[Any], number: int) -> dict[str, Any]:
    if not answers:
        raise ScriptError("The script has no answer for this.")
    answer = answers[min(number, len(answers) - 1)]
    return {"text": answer} if isinstance(answer, str) else answer


def _check(answer: dict[str, Any], sent: Sent) -> None:
    for name, wanted in answer.get("expect", {}).items():
        found = {
            "user": [sent.user],
            "instructions": [sent.instructions],
            "results": sent.results,
            "tools": list(sent.tools),
        }[name]
        parts = [wanted] if isinstance(wanted, str) else wanted
        missing = [part for part in parts if not any(part in text for text in found)]
        if missing:
            raise ScriptError(f"The script expected {missing} in {name}, but got {found}.")


def _raise_error(answer: dict[str, Any], attempt: int) -> None:
    errors = answer.get("errors", ())
    error = errors[attempt] if attempt < len(errors) else answer.get("error")
    if error is None:
        return
    if error == "connection":
        raise exceptions.ModelConnectionError("scripted", "the script refused the connection")
    if error == "timeout":
        raise exceptions.ModelTimeoutError("scripted", "the script took too long")
    status = error["status"]
    other = exceptions.ModelServerError if status >= 500 else None
    raise exceptions.ModelHTTPError.for_category(
        CATEGORIES.get(status, other),
        status_code=status,
        model_name="scripted",
        body=error.get("body"),
        headers=error.get("headers"),
    )


def _touch(path: str | None) -> None:
    if path is not None:
        Path(path).touch()


async def _wait_for(path: Path) -> None:
    while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(POLL)


class Sent:
    """A request, as scripts talk about it."""

    def __init__(self, messages: Sequence[ModelMessage], parameters: ModelRequestParameters):
        self.messages = messages
        parts = Model._get_instruction_parts(messages, parameters) or []  # as its adapters do
        self.instructions = "\n\n".join(part.content for part in parts)
        self.tools = {tool.name: tool for tool in parameters.function_tools}
        self.user = ""
        self.results: list[str] = []
        self.answers = self.answers_since_user = 0
        for message in messages:
            if isinstance(message, ModelResponse):
                self.answers += 1
                self.answers_since_user += 1
                self.results = []
            else:
                self._read(message)

    def _read(self, request: ModelRequest) -> None:
        for part in request.parts:
            if isinstance(part, UserPromptPart):
                said = [part.content] if isinstance(part.content, str) else part.content
                self.user = "\n".join(item for item in said if isinstance(item, str))
                self.answers_since_user = 0
            elif isinstance(part, ToolReturnPart):
                self.results.append(part.model_response_str())

    @property
    def place(self) -> object:
        """The same for another attempt at the same request."""
        return self.answers, self.user, *self.results

    def as_json(self, settings: ModelSettings | None) -> str:
        """The request as one line, the same text for the same request."""
        return json.dumps(
            {
                "instructions": self.instructions,
                "messages": ModelMessagesTypeAdapter.dump_python(list(self.messages), mode="json"),
                "tools": [
                    [tool.name, tool.description, tool.parameters_json_schema]
                    for tool in self.tools.values()
                ],
                "settings": settings,
            },
            ensure_ascii=False,
            default=str,
        )

    def quote(self, what: str) -> str:
        """The text that an `echo` says."""
        if what == "thread":
            return json.dumps(
                [
                    [part.part_kind, str(getattr(part, "content", getattr(part, "args", "")))]
                    for message in self.messages
                    for part in message.parts
                ],
                ensure_ascii=False,
            )
        quoted = {"user": self.user, "instructions": self.instructions}
        return "\n".join(self.results) if what == "results" else quoted[what]
