"""Servers of models on this machine: Ollama, LM Studio, llama-server, vLLM.

Each address is asked which models it has: one GET, without a key and without any text of a person.
What answers is offered, never used by itself, since another user of the machine may listen there.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final
from urllib.parse import urlsplit

from clew.core.models import LocalServer
from clew.core.text import strip_controls

NAMES: Final = {
    11434: ("ollama", "Ollama"),
    1234: ("lmstudio", "LM Studio"),
    8080: ("llamacpp", "llama-server"),
    8000: ("vllm", "vLLM"),
}
PATIENCE: Final = 1.0
LONGEST: Final = 256 * 1024
"""Bytes of an answer that are read."""
MOST_MODELS: Final = 200
LONGEST_NAME: Final = 200


async def find_servers(addresses: tuple[str, ...]) -> tuple[LocalServer, ...]:
    """Those of the addresses where a server lists at least one model, in their order."""
    asked = [_ask(address) for address in addresses]
    found = await asyncio.gather(*asked)
    return tuple(each for each in found if each is not None)


async def _ask(address: str) -> LocalServer | None:
    """The server at an address such as `http://127.0.0.1:11434/v1`; None if none answers."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or 80
    try:
        async with asyncio.timeout(PATIENCE):
            models = _read_models(await _get(host, port, f"{parts.path.rstrip('/')}/models"))
    except (OSError, TimeoutError, ValueError):
        return None
    name, title = NAMES.get(port, (f"server-{port}", f"A server at port {port}"))
    return LocalServer(name=name, title=title, url=address, models=models) if models else None


async def _get(host: str, port: int, path: str) -> bytes:
    """The body of an answer with status 200; `ValueError` for any other answer."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        # HTTP/1.0: the body ends with the connection, in one piece.
        writer.write(f"GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n".encode())
        await writer.drain()
        answer = b""
        while len(answer) <= LONGEST and (data := await reader.read(LONGEST)):
            answer += data
    finally:
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if len(answer) > LONGEST or head.split(b" ", 2)[1:2] != [b"200"]:
        raise ValueError
    return body


def _read_models(body: bytes) -> tuple[str, ...]:
    """The ids in `{"data": [{"id": …}]}`, without any that would need quoting."""
    try:
        ids = [each["id"] for each in json.loads(body)["data"]]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError from error
    return tuple(
        each
        for each in ids[:MOST_MODELS]
        if isinstance(each, str)
        and 0 < len(each) <= LONGEST_NAME
        and each == strip_controls(each, keep_newlines=False)
        and not any(map(str.isspace, each))
    )
