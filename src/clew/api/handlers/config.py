"""Handlers of the operations about the configuration."""

from __future__ import annotations

import asyncio

from clew.api.config import SET, SHOW, ConfigChanged, ConfigShown, SetConfig
from clew.api.handlers.parts import Caller, Parts, SettingsFile, handles
from clew.api.operation import NoParams
from clew.errors import InvalidInput


@handles(SHOW)
async def show_config(parts: Parts, _params: NoParams, _caller: Caller) -> ConfigShown:
    """The values that are in effect, without secrets."""
    settings = _get_settings(parts)
    return ConfigShown(str(parts.config_file), settings.list_settings())


@handles(SET)
async def set_config(parts: Parts, params: SetConfig, _caller: Caller) -> ConfigChanged:
    """Write a value into the config file, and use it from now on."""
    settings = _get_settings(parts)
    # In a thread: the file is locked and synced.
    return await asyncio.to_thread(settings.set, params.key, params.value)


def _get_settings(parts: Parts) -> SettingsFile:
    if parts.settings is None:
        raise InvalidInput("There is no configuration here.")
    return parts.settings
