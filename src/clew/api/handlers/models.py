"""Handlers of the operations about models."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.models import (
    GET,
    LIST,
    SERVERS,
    TEST,
    GetModel,
    ModelList,
    ModelTested,
    ServersFound,
    TryModel,
)
from clew.api.operation import NoParams
from clew.core.models import ModelInfo
from clew.core.redaction import redact
from clew.core.text import cut
from clew.errors import ClewError, InvalidInput

QUESTION: Final = "Answer with one word: ready"

PATIENCE: Final = 25.0
"""Seconds for a model to answer a test."""

MOST_WORDS: Final = 2_000


@handles(LIST)
async def list_models(parts: Parts, _params: NoParams, _caller: Caller) -> ModelList:
    """The models of this configuration."""
    # In a thread: details of models may come from a library that takes a second to load.
    listed = await asyncio.to_thread(parts.models.list_models)
    return ModelList(listed, parts.models.get_model())


@handles(GET)
async def get_model(parts: Parts, params: GetModel, _caller: Caller) -> ModelInfo:
    """One model of this configuration."""
    return await asyncio.to_thread(parts.models.get_model, params.name)


@handles(TEST)
async def check_model(parts: Parts, params: TryModel, _caller: Caller) -> ModelTested:
    """Ask a model; an unknown name is an error, a model that does not answer is a result."""
    info = await asyncio.to_thread(parts.models.get_model, params.name)
    return await try_model(parts, info, QUESTION)


@handles(SERVERS)
async def find_servers(parts: Parts, _params: NoParams, _caller: Caller) -> ServersFound:
    """What listens on this machine is known to its owner only."""
    return ServersFound(await parts.models.find_servers())


async def try_model(parts: Parts, info: ModelInfo, question: str, soul: str = "") -> ModelTested:
    """Ask one question. What a provider says may quote its key, so it is redacted."""
    if parts.ask_model is None:
        raise InvalidInput("Models can't be tested here.")
    began = monotonic()
    try:
        async with asyncio.timeout(PATIENCE):
            words, works = await parts.ask_model(info, question, soul), True
    except TimeoutError:
        words, works = f"{info.name} did not answer within {PATIENCE:.0f} seconds.", False
    except ClewError as error:
        words, works = str(error), False
    took = round((monotonic() - began) * 1000)
    return ModelTested(info.name, works, took, cut(redact(words), MOST_WORDS))
