"""The OpenAPI document (3.1), made from the endpoints: nothing is in it that is not in the code.

`x-scope` is the scope that an operation needs, `x-who` says whether guests may call it for what is
theirs; `security: []` marks the open ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from clew.api.blobs import BlobFile
from clew.api.frames import ClientFrame, LiveFrame, StreamFrame
from clew.api.operation import Operation
from clew.api.problems import MEDIA_TYPE, Problem
from clew.gateway.auth import Setup
from clew.gateway.endpoints import Endpoint
from clew.version import __version__

REFS: Final = "#/components/schemas/{name}"
SECURITY: Final[list[dict[str, list[str]]]] = [{"token": []}, {"cookie": []}]
ABOUT: Final = """Talk to clew's sessions. Every call needs a token (`clew token create`), sent as
`Authorization: Bearer TOKEN`; `x-scope` is the scope that it needs. Errors are problem
documents (RFC 9457): `code` is stable and for programs, `detail` is for people."""
PROBLEMS: Final = {
    "400": "The request can't be understood. Nothing was changed.",
    "401": "No token, or one that is not accepted.",
    "403": "The scope of the token is too small, or a page of another site asked.",
    "404": "Not found.",
    "421": "The gateway does not answer to that host name.",
    "429": "Too many wrong tokens from this address.",
}
FOR_BODIES: Final = {
    "413": "The body is too long.",
    "415": "The body is not JSON.",
}

STREAMED: Final = 200
FRAMES: Final[tuple[Any, ...]] = (StreamFrame, LiveFrame, ClientFrame)
"""What is sent over streams. OpenAPI 3.1 has no word for it: `x-frames` names it."""


def make_document(endpoints: Sequence[Endpoint], setup: Setup) -> dict[str, Any]:
    """The document of a gateway with these endpoints."""
    kinds: list[Any] = [Problem, *FRAMES]
    for endpoint in endpoints:
        of_it = (endpoint.operation.takes, endpoint.operation.gives, endpoint.frames)
        kinds += [each for each in of_it if each]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFS)
    known = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    # Parameters are described one by one with their operation; their struct is never sent whole.
    takes = {endpoint.operation.takes.__name__: endpoint.operation.takes for endpoint in endpoints}
    inner = {name: components.pop(name) for name in takes if name in components}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = endpoint.operation
        told = _operation(endpoint, inner.get(operation.takes.__name__, {}), known)
        paths.setdefault(operation.path, {})[operation.method.lower()] = told
    return {
        "openapi": "3.1.0",
        "info": {"title": "clew", "version": __version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": setup.cookie},
            },
        },
        "security": SECURITY,
    }


def _operation(endpoint: Endpoint, takes: dict[str, Any], known: dict[int, Any]) -> dict[str, Any]:
    operation = endpoint.operation
    fields: dict[str, Any] = takes.get("properties", {})
    required = takes.get("required", ())
    told: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.help,
        "tags": [operation.name.partition(".")[0]],
        "parameters": [
            *(
                _parameter(name, "path", fields[name], is_needed=True)
                for name in operation.path_fields
            ),
            *(
                _parameter("If-Match", "header", {"type": "string"}, is_needed=False)
                for _ in operation.header_fields
            ),
        ],
        "responses": _responses(endpoint, known),
        "security": [] if endpoint.is_open else SECURITY,
    }
    if not endpoint.is_open:
        told["x-scope"], told["x-who"] = operation.scope, operation.who
    others = {name: fields[name] for name in operation.other_fields}
    needed = [name for name in operation.other_fields if name in required]
    if not operation.has_body:
        told["parameters"] += [
            _parameter(name, "query", each, is_needed=name in needed)
            for name, each in others.items()
        ]
    elif others:
        strict = operation.takes.__struct_config__.forbid_unknown_fields
        schema = {"type": "object", "properties": others, "additionalProperties": not strict}
        schema |= {"required": needed} if needed else {}
        content = {"application/json": {"schema": schema}}
        told["requestBody"] = {"required": bool(needed), "content": content}
    return told


def _parameter(name: str, place: str, schema: Any, *, is_needed: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": is_needed, "schema": schema}


def _responses(endpoint: Endpoint, known: dict[int, Any]) -> dict[str, Any]:
    operation = endpoint.operation
    if endpoint.is_socket:
        answers: dict[str, Any] = {
            "101": {
                "description": "A WebSocket from here on; every frame is one JSON text.",
                "x-frames": known[id(LiveFrame)],
                "x-client-frames": known[id(ClientFrame)],
            }
        }
    else:
        answer: dict[str, Any] = {"description": operation.help}
        content = _content(operation, known)
        answer |= {"content": content} if content else {}
        if operation.etag is not None:
            answer["headers"] = {"ETag": {"schema": {"type": "string"}}}
        answers = {str(operation.status): answer}
        if operation.answer == "events":
            stream = {"description": "An event stream (SSE).", "content": _stream(endpoint, known)}
            # One that has another status when it does not stream has both answers.
            both = endpoint.frames is not None or operation.status != STREAMED
            answers = _merge(answers if both else {}, str(STREAMED), stream)
    problem = {MEDIA_TYPE: {"schema": known[id(Problem)]}}
    words = PROBLEMS | (FOR_BODIES if operation.has_body else {})
    if operation.header_fields:
        words |= {"412": "It was changed since you read it. Read it again."}
    told = {status: {"description": word, "content": problem} for status, word in words.items()}
    rest = {"description": "Any other error.", "content": problem}
    return answers | told | {"default": rest}


def _content(operation: Operation[Any, Any], known: dict[int, Any]) -> dict[str, Any]:
    if operation.gives is None:
        return {}
    if operation.gives is BlobFile:
        return {"*/*": {"schema": {"type": "string", "format": "binary"}}}
    if operation.answer == "file":
        text = {"schema": {"type": "string"}}
        return dict.fromkeys(("text/markdown", "text/html", "application/jsonl"), text)
    return {"application/json": {"schema": known[id(operation.gives)]}}


def _merge(answers: dict[str, Any], status: str, more: dict[str, Any]) -> dict[str, Any]:
    """Answers with another one; two of the same status are one with the contents of both."""
    known = answers.get(status, {})
    content = known.get("content", {}) | more["content"]
    return answers | {status: more | known | {"content": content}}


def _stream(endpoint: Endpoint, known: dict[int, Any]) -> dict[str, Any]:
    told = "Each event's `data` is one of `x-frames`; its `event` is that frame's type."
    if endpoint.frames is not None:
        told = "Each event's `data` is `x-frames`, in the shape of OpenAI's API."
    return {
        "text/event-stream": {
            "schema": {"type": "string", "description": told},
            "x-frames": known[id(endpoint.frames or StreamFrame)],
        }
    }
