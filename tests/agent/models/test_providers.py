"""The real code of providers against a real server here, which speaks like two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
import xllamacpp

from clew.agent.answers import Answer, ask_once
from clew.agent.models.catalogue import Catalogue
from clew.agent.models.providers import ProviderSetup
from clew.errors import ModelRefused, ModelUnavailable
from tests.agent.models.conftest import Catalogues

KEY = "sesame"


class Place(NamedTuple):
    """Where the server is, for a client of each kind."""

    openai: str
    anthropic: str


@pytest.fixture(scope="module")
def place(weights: Path) -> Iterator[Place]:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.n_ctx = 512
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.api_keys = [KEY]
    parameters.verbosity = -1
    server = xllamacpp.Server(parameters)
    address = server.listening_address
    yield Place(openai=f"{address}/v1", anthropic=address)
    del server


def configure(
    catalogues: Catalogues, kind: Literal["openai", "anthropic"], url: str, key: str
) -> Catalogue:
    return catalogues.make(
        ProviderSetup(name="box", kind=kind, base_url=url, api_key=lambda: key, models=("any",))
    )


async def ask(catalogue: Catalogue) -> Answer:
    info = catalogue.get_model("box/any")
    try:
        model = await catalogue.open_model(info)
        settings = catalogue.get_settings(info)
        settings["max_tokens"] = 8
        # The same words each time. By chance it begins with an emoji, whose first token is no whole
        # character: then this server forgets Anthropic's `message_start`, and that ends the answer.
        settings["temperature"] = 0
        return await ask_once(model, info, settings, "Say hello.", clock=time.perf_counter)
    finally:
        await catalogue.close()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_model_elsewhere_answers(
    catalogues: Catalogues, place: Place, kind: Literal["openai", "anthropic"]
) -> None:
    answer = await ask(configure(catalogues, kind, getattr(place, kind), KEY))
    assert answer.text
    assert answer.first_token > 0
    assert answer.input_tokens > 5
    assert 0 < answer.output_tokens <= 8


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_wrong_key_is_said_in_words(
    catalogues: Catalogues, place: Place, kind: Literal["openai", "anthropic"]
) -> None:
    with pytest.raises(ModelRefused, match=r"did not accept the key.*providers\.box"):
        await ask(configure(catalogues, kind, getattr(place, kind), "wrong"))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_server_that_is_not_there_is_said_in_words(
    catalogues: Catalogues, kind: Literal["openai", "anthropic"]
) -> None:
    with pytest.raises(ModelUnavailable, match="can't be reached"):
        await ask(configure(catalogues, kind, "http://127.0.0.1:9", KEY))
