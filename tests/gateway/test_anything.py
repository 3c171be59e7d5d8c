"""The whole API, with whatever schemathesis thinks of: it may refuse, it never breaks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from clew.api.problems import MEDIA_TYPE
from tests.gateway.conftest import open_gatehouse
from tests.gateway.test_server import open_server
from tests.patience import PATIENCE
from tests.sizes import pick

EXAMPLES = pick(4, 12)
ENDLESS = {"live", "sessions.events"}
"""Streams that end only with the client; they have tests of their own."""


class Target(NamedTuple):
    """A gateway in a thread of its own, since schemathesis asks and waits."""

    url: str
    token: str
    session: str
    document: dict[str, Any]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    ready: Future[Target] = Future()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve(path: Path) -> None:
        async with open_gatehouse(path) as house, open_server(house) as url:
            token = await house.secret()
            session = await house.session(title="The one that is there")
            answer = await house.ask("GET", "/v1/openapi.json", token=token)
            ready.set_result(Target(url, token, session.id, answer.json()))
            await over.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(serve(tmp_path_factory.mktemp("anything")))
            except BaseException as error:
                if ready.done():
                    raise
                ready.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ready.result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_nothing_that_is_asked_breaks_it(
    target: Target, mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    schema = schemathesis.openapi.from_dict(target.document)
    asked = 0
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]
        name = operation.definition.raw["operationId"]
        if name in ENDLESS:
            continue

        @seed(7)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), is_real=st.booleans())
        def ask(case: Any, is_real: bool) -> None:
            nonlocal asked
            asked += 1
            if is_real and "id" in case.path_parameters:
                case.path_parameters["id"] = target.session
            if isinstance(case.body, dict):
                case.body.pop("stream", None)
            headers = {"Authorization": f"Bearer {target.token}"}
            response = case.call(base_url=target.url, headers=headers, timeout=PATIENCE)
            assert response.status_code < 500
            if response.status_code >= 400:
                assert response.headers["content-type"] == [MEDIA_TYPE]

        # What takes nothing can't be asked wrongly.
        with subtests.test(msg=name), contextlib.suppress(Unsatisfiable):
            ask()
    assert asked > 100
