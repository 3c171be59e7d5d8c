"""The embedded model's engine: llama.cpp inside this process, one question at a time.

It takes messages as plain dictionaries and passes on what the library says, from a thread of its
own. It knows neither pydantic-ai nor where the weights come from. The library also opens a port on
this machine, which can't be switched off; its key is random and known to this process only.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from clew.errors import ModelUnavailable

CONTEXT: Final = 1024
"""Tokens of question and answer together. It reads some hundred a second, so more is slow."""

PATIENCE: Final = 1.0
"""Seconds that the end of the process waits for a question that is still being read."""

INSTALL: Final = (
    "The embedded model's engine is not installed. `pip install 'clew[local]'` installs it; or "
    "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or another model (`clew model list`)."
)

Chunk = dict[str, Any]


class Run:
    """One question. `stop` ends it at its next token."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self.thread: threading.Thread | None = None

    @property
    def stopped(self) -> bool:
        """Whether it was stopped: the rest is not wanted."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End the run at its next token; returns at once."""
        self._stopped.set()


class Engine:
    """The model in memory, from `load` to `unload`."""

    def __init__(self, weights: Path) -> None:
        self.weights = weights
        self._server: Any = None
        self._loading = threading.Lock()
        self._runs: set[Run] = set()
        _engines.add(self)

    @property
    def loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._server is not None

    def load(self) -> None:
        """Read the weights, once. Takes about a second."""
        with self._loading:
            if self._server is None:
                self._server = _serve(self.weights)

    def start(
        self,
        messages: Sequence[dict[str, str]],
        options: dict[str, Any],
        *,
        on_chunk: Callable[[Chunk], None],
        on_end: Callable[[BaseException | None], None],
    ) -> Run:
        """Ask. Both callbacks are called from another thread, `on_end` last and once."""
        run = Run()

        def receive(chunk: Chunk) -> bool:
            if not run.stopped:
                on_chunk(chunk)
            return run.stopped

        def ask() -> None:
            failure: BaseException | None = None
            try:
                self.load()
                if not run.stopped:
                    question = {"messages": list(messages), "stream": True, **options}
                    question["stream_options"] = {"include_usage": True}
                    self._server.handle_chat_completions(question, receive)
            except BaseException as error:  # noqa: BLE001  # passed on to the caller
                failure = error
            finally:
                self._runs.discard(run)
                on_end(failure)

        # A daemon, so that a question that is still being read does not hold up the exit.
        run.thread = threading.Thread(target=ask, name="embedded-model", daemon=True)
        self._runs.add(run)
        run.thread.start()
        return run

    def unload(self, patience: float = PATIENCE) -> None:
        """End what still runs, and free the memory."""
        running = list(self._runs)
        for run in running:
            run.stop()
        for run in running:
            if run.thread is not None:
                run.thread.join(patience)
        if not self._runs:
            self._server = None


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _unload_all() -> None:
    # A thread that comes back from the library into an interpreter that is gone would crash it.
    for engine in list(_engines):
        engine.unload()


def _serve(weights: Path) -> Any:
    try:
        import xllamacpp  # noqa: PLC0415  # optional, and large
    except ImportError as error:
        raise ModelUnavailable(INSTALL) from error
    import secrets  # noqa: PLC0415  # only where there is a port to lock

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.model_alias = {"smollm2-135m"}
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    # It fits. Checking that would load it twice, and block every other thread while it does.
    parameters.fit_params = False
    # Two threads were far slower than one where it was measured.
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
        # A server that is freed before its loop runs would block the process for ever. This call
        # returns once the loop runs.
        server.handle_metrics()
        return server
    except RuntimeError as error:
        raise ModelUnavailable(
            f"The embedded model can't be loaded from {weights}: {error}. "
            "Delete that file, then run `clew model pull` to fetch it again."
        ) from error
