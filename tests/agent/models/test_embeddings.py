"""The embedding models: the real weights, a real server that talks nonsense, a real GGUF file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.agent.models.embeddings import GgufEmbedder, LocalEmbedder, ServerEmbedder, read_answer
from clew.agent.models.weights import EMBEDDINGS
from clew.errors import ModelUnavailable
from tests.weights import have_embeddings, have_weights

# What the model's publisher shows for these two sentences.
EXAMPLES = {
    "This is an example sentence": (0.0676569, 0.0634959, 0.0487131, 0.0793050, 0.0374481),
    "Each sentence is converted": (0.0864386, 0.1027627, 0.0053946, 0.0020445, -0.0099634),
}


@pytest.fixture(scope="module")
def minilm() -> LocalEmbedder:
    return LocalEmbedder([have_embeddings().parent])


async def vectors(embedder: LocalEmbedder, *texts: str) -> Any:
    return np.stack([np.frombuffer(each, "<f4") for each in await embedder.embed(texts)])


async def test_the_vectors_are_those_of_the_published_model(minilm: LocalEmbedder) -> None:
    found = await vectors(minilm, *EXAMPLES)
    assert found.shape == (2, 384)
    for row, known in zip(found, EXAMPLES.values(), strict=True):
        assert np.allclose(row[:5], known, atol=2e-5)


async def test_a_vector_has_the_length_one_and_does_not_depend_on_its_neighbours(
    minilm: LocalEmbedder,
) -> None:
    texts = ["tea", "", "a longer sentence about tea and the weather in Bergen. " * 40, "日本語"]
    together = await vectors(minilm, *texts, *("filler " * n for n in range(1, 20)))
    alone = np.concatenate([await vectors(minilm, each) for each in texts])
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert np.allclose(together[:4], alone, atol=1e-5)


async def test_a_paraphrase_is_nearer_than_what_has_nothing_to_do_with_it(
    minilm: LocalEmbedder,
) -> None:
    for text, same, other in (
        ("The cat sat on the mat", "A kitten was sitting on a rug", "Interest rates rise"),
        ("How old are you?", "What is your age?", "The boiler loses pressure"),
        ("He plays the guitar", "A man makes music on a string instrument", "Bread is baking"),
    ):
        a, b, c = await vectors(minilm, text, same, other)
        assert a @ b > a @ c + 0.2


async def test_without_weights_it_says_what_to_run_and_fetches_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="clew model pull embeddings"):
        await LocalEmbedder([tmp_path]).embed(["tea"])
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240  # nothing else runs


async def test_damaged_weights_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    for each in EMBEDDINGS.files:
        (tmp_path / each.name).write_bytes(b"\xff" * each.size)
    with pytest.raises(ModelUnavailable, match="can't be read from"):
        await LocalEmbedder([tmp_path]).embed(["tea"])


# --- a file -----------------------------------------------------------------------------------


async def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nonsense.gguf"
    path.write_bytes(b"GGUF, but not really")
    with pytest.raises(ModelUnavailable, match="can't be loaded as an embedding model"):
        await GgufEmbedder(path).embed(["tea"])


async def test_a_gguf_file_embeds_through_llama_cpp() -> None:
    embedder = GgufEmbedder(have_weights())
    try:
        first, second, again = await embedder.embed(["tea", "The boiler loses pressure", "tea"])
        numbers = np.frombuffer(first, "<f4")
        assert np.isclose(np.linalg.norm(numbers), 1, atol=1e-4)
        assert len(first) == len(second) == len(again)
        assert numbers @ np.frombuffer(again, "<f4") > numbers @ np.frombuffer(second, "<f4")
    finally:
        await embedder.close()


# --- a server ---------------------------------------------------------------------------------


@asynccontextmanager
async def serving(answer: Callable[[dict[str, Any]], bytes | None]) -> AsyncIterator[str]:
    """A server that answers each request with these bytes, or never (None)."""
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].split()[0])
        said = answer(json.loads(await reader.readexactly(length)))
        if said is None:
            await ended.wait()
        else:
            writer.write(said)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            ended.set()


def ok(body: Any, status: str = "200 OK") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + data


def rows(*numbers: list[float]) -> dict[str, Any]:
    return {"data": [{"embedding": each, "index": at} for at, each in enumerate(numbers)]}


async def ask(address: str, *texts: str, patience: float = 30.0) -> list[bytes]:
    embedder = ServerEmbedder("small", provider="here", base_url=address, timeout=patience)
    assert embedder.model == "here/small"
    return await embedder.embed(texts)


async def test_a_server_is_asked_like_openai_and_its_vectors_get_the_length_one() -> None:
    asked: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> bytes:
        asked.append(request)
        return ok(
            {"data": [{"embedding": [0, 5.0], "index": 1}, {"embedding": [3, 4], "index": 0}]}
        )

    async with serving(answer) as address:
        found = await ask(address, "one", "two")
    assert asked == [{"model": "small", "input": ["one", "two"], "encoding_format": "float"}]
    assert [np.frombuffer(each, "<f4").tolist() for each in found] == [
        pytest.approx([0.6, 0.8]),
        [0, 1],
    ]


NONSENSE = {
    "no json": ok(b"<html>hello</html>"),
    "not utf-8": ok(b'{"data": "\xff\xfe"}'),
    "deep": ok(b"[" * 100_000),
    "nothing": ok({"data": []}),
    "one for two": ok(rows([1.0])),
    "different lengths": ok(rows([1.0], [1.0, 2.0])),
    "empty": ok(rows([], [])),
    "zero": ok(rows([0.0, 0.0], [1.0, 0.0])),
    "not a number": ok(b'{"data": [{"embedding": [NaN]}, {"embedding": [1]}]}'),
    "infinite": ok(rows([1e300, 1.0], [1.0, 1.0])),
    "words": ok({"data": [{"embedding": ["a"]}, {"embedding": [1]}]}),
    "far too long": ok(rows([1.0] * 20_000, [1.0] * 20_000)),
    "an error": ok({"error": "no such model"}, "404 Not Found"),
    "a redirect": ok({}, "302 Found"),
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
    "no http": b"220 mail.example ESMTP\r\n",
}


@pytest.mark.parametrize("said", NONSENSE)
async def test_nonsense_of_a_server_is_an_error(said: str) -> None:
    async with serving(lambda _: NONSENSE[said]) as address:
        with pytest.raises(ModelUnavailable, match="here/small"):
            await ask(address, "one", "two")


async def test_a_server_that_stalls_is_given_up() -> None:
    async with serving(lambda _: None) as address:
        with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.2 s"):
            await ask(address, "one", patience=0.2)


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        await ask("http://127.0.0.1:9/v1", "one")


async def test_a_server_that_changes_the_length_of_its_vectors_is_refused() -> None:
    lengths = iter((3, 2))
    async with serving(lambda _: ok(rows([1.0] * next(lengths)))) as address:
        embedder = ServerEmbedder("small", provider="here", base_url=address)
        await embedder.embed(["one"])
        with pytest.raises(ModelUnavailable, match="of 2 numbers, and of 3 before"):
            await embedder.embed(["two"])


def test_an_answer_without_numbers_for_its_rows_is_read_in_order() -> None:
    data = json.dumps({"data": [{"embedding": [1, 0]}, {"embedding": [0, 2]}]}).encode()
    found = [np.frombuffer(each, "<f4").tolist() for each in read_answer(data, 2, "m")]
    assert found == [[1, 0], [0, 1]]
