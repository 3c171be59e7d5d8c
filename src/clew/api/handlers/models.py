"""Handlers of the operations about models."""

from __future__ import annotations

import asyncio

from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.models import GET, LIST, GetModel, ModelList
from clew.api.operation import NoParams
from clew.core.models import ModelInfo


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
