"""From an HTTP request to an operation's parameters: path, query, header and body, each bounded.

A path and a query are text, so numbers are read from it; a body is JSON, where a number is one. A
parameter that the operation does not know is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from clew.api.complaints import explain
from clew.api.operation import Operation, P, R, read_params
from clew.errors import InvalidInput
from clew.gateway.problems import Refused

MAX_BODY: Final = 4_000_000
MAX_UPLOAD: Final = 32_000_000
"""For operations that take files: one of 20 MB in base64, and the message."""
PATIENCE: Final = 300.0
"""Seconds for a whole body to arrive."""
MAX_FIELDS: Final = 100
_ETAG: Final = re.compile(r'"([^"]+)"')


async def read_request(operation: Operation[P, R], request: Request) -> P:
    """The parameters of an operation; `InvalidInput` or `Refused` for a wrong request."""
    values: dict[str, Any] = {}
    query = read_query(request)
    if operation.has_body:
        _know(query, ())
        values = await read_json(request, MAX_UPLOAD if operation.uploads else MAX_BODY)
    else:
        values = dict(query)
    _know(values, operation.other_fields)
    values |= {name: request.path_params[name] for name in operation.path_fields}
    values |= _read_headers(operation, request)
    return read_params(operation, values, strict=operation.has_body)


def read_query(request: Request) -> dict[str, str]:
    """The query, every name once."""
    text = request.scope["query_string"]
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(text),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError as error:
        raise InvalidInput("The query can't be read: it has to be URL-encoded UTF-8.") from error
    query = dict(pairs)
    if len(query) != len(pairs):
        raise InvalidInput("A parameter is in the query twice. Give it once.")
    return query


async def read_json(request: Request, limit: int) -> dict[str, Any]:
    """A body that is a JSON object; a missing body is an empty object."""
    body = await read_body(request, limit)
    if not body:
        return {}
    kind, _, more = request.headers.get("content-type", "").partition(";")
    charset = more.strip().lower().removeprefix("charset=").strip('"')
    if kind.strip().lower() != "application/json" or charset not in ("", "utf-8"):
        raise Refused(
            415,
            "unsupported_media_type",
            "The body has to be JSON in UTF-8, sent as `Content-Type: application/json`.",
        )
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refused(400, "malformed_json", f"The body is not JSON: {error}.") from error
    except RecursionError as error:
        detail = "The JSON of the body is nested too deeply."
        raise Refused(400, "malformed_json", detail) from error
    if not isinstance(value, dict):
        raise Refused(400, "malformed_json", "The body has to be a JSON object: {…}.")
    return value


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. One that is too long is refused as soon as that is known."""
    if request.headers.get("content-encoding", "identity") != "identity":
        detail = "A compressed body is not accepted. Send it without a Content-Encoding."
        raise Refused(415, "unsupported_media_type", detail)
    told = request.headers.get("content-length", "")
    if told.isdecimal() and (len(told) > len(str(limit)) or int(told) > limit):
        raise _too_long(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise _too_long(limit)
    except TimeoutError as error:
        detail = f"The body did not arrive within {PATIENCE:.0f} seconds."
        raise Refused(408, "request_timeout", detail) from error
    return bytes(body)


def _too_long(limit: int) -> Refused:
    detail = f"The body is too long: at most {limit:,} bytes are allowed. Nothing was changed."
    return Refused(413, "body_too_large", detail)


def _know(given: Iterable[str], known: tuple[str, ...]) -> None:
    unknown = [each for each in given if each not in known]
    if unknown:
        names = ", ".join(known) or "none"
        raise InvalidInput(
            f'There is no parameter "{unknown[0][:100]}" here (known: {names}). '
            "Nothing was changed."
        )


def _read_headers(operation: Operation[Any, Any], request: Request) -> dict[str, Any]:
    given = request.headers.getlist("if-match")
    if not given or given == ["*"]:
        return {}
    if not operation.header_fields:
        if request.method in ("GET", "HEAD"):
            return {}
        raise InvalidInput(f"{operation.name} does not take If-Match. Nothing was changed.")
    tag = _ETAG.fullmatch(given[0].strip())
    if len(given) > 1 or tag is None:
        raise InvalidInput('If-Match has to be one ETag in quotes, as in If-Match: "5".')
    # A header is text; where the parameter is a number, it is read as one.
    kinds = {each.name: each.type for each in msgspec.structs.fields(operation.takes)}
    try:
        return {"if_match": msgspec.convert(tag[1], kinds["if_match"], strict=False)}
    except msgspec.ValidationError as error:
        told = explain(error, kinds["if_match"], tag[1], whole="If-Match")
        raise InvalidInput(f"{told}. Nothing was changed.") from error
