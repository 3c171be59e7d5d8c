"""The configuration: its values with where they come from, and the few that a page changes."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from clew.api.fields import Word
from clew.api.operation import NoParams, Params, row


class SetConfig(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key and its value as `clew config set` takes it; null removes it from the file.

    Keys: `model`, `thinking`, and `base_url`, `api_key`, `kind` and `models` of a provider, as in
    `providers.ollama.base_url`.
    """

    key: Word
    value: Annotated[str, Meta(max_length=4_000)] | None


class SettingView(msgspec.Struct, frozen=True):
    """A value and its source: `default`, a file, a variable or a flag. Secrets are hidden."""

    key: str
    value: Any
    source: str


class ConfigShown(msgspec.Struct, frozen=True):
    """All values that are in effect, and the config file, which need not exist."""

    file: str
    settings: tuple[SettingView, ...]


class ConfigChanged(msgspec.Struct, frozen=True):
    """The value as it is now. `cleared`: keys that were removed with it."""

    setting: SettingView
    cleared: tuple[str, ...] = ()


# --- the rows of the table ---------------------------------------------------------------------

SHOW: Final = row(
    "config.show", "GET", "config", "read", NoParams, ConfigShown,
    "List the configuration that is in effect, and where each value comes from.",
)  # fmt: skip
SET: Final = row(
    "config.set", "PUT", "config", "admin", SetConfig, ConfigChanged,
    "Change the default model, or a provider. A new address of a provider clears its key.",
)  # fmt: skip
ROWS: Final = (SHOW, SET)
