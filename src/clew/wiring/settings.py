"""The configuration as a page shows it, and the few values that a page changes.

A change is written to the config file, and used by this process from now on. Whoever changes the
address of a provider must not get its key: the key is cleared with it. A key is written to a file
of its own that only its owner can read, never into the config file.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import msgspec

from clew.api.config import ConfigChanged, SettingView
from clew.config import Config, ProviderConfig, set_value, unset_value
from clew.configfile import Setting, check
from clew.core.settings import split_key
from clew.errors import Conflict, InvalidInput
from clew.files.durable import make_directory, put_bytes
from clew.wiring.models import make_models_setup

if TYPE_CHECKING:
    from clew.wiring.house import House

GENERAL: Final = ("model", "thinking")
OF_PROVIDERS: Final = ("base_url", "api_key", "kind", "models")
WHERE: Final = ("base_url", "kind")
"""Values of a provider that decide where its key is sent."""

LONGEST_KEY: Final = 1_000


class ConfigSettings:
    """`SettingsFile` over the configuration of a house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._alone = Lock()

    def list_settings(self) -> tuple[SettingView, ...]:
        """See `SettingsFile`."""
        return tuple(self._view(key) for key in self._house.config.sources)

    def set(self, key: str, value: str | None) -> ConfigChanged:
        """See `SettingsFile`."""
        with self._alone:
            return self._set(key, value)

    def _set(self, key: str, value: str | None) -> ConfigChanged:
        provider, name = _split(key)
        config = self._house.config
        self._check_source(key)
        if value is not None and name != "api_key":
            check(Setting(key, value, "config set"), spelled=True)  # before anything is changed
        cleared: tuple[str, ...] = ()
        if provider is not None and name in WHERE and value != config.value(key):
            cleared = self._clear_key(provider)
            config = self._house.config
        if provider is not None and name == "api_key":
            value = None if value is None else self._put_key(provider, value)
        if value is None:
            unset_value(config.file, key)
            if provider is not None and name == "api_key":
                self._drop_key(provider)
            found: Any = None
        else:
            found = set_value(config.file, key, value).value
        self._use(_changed(config, key, provider, name, found))
        return ConfigChanged(self._view(key), cleared)

    def _view(self, key: str) -> SettingView:
        config = self._house.config
        return SettingView(key, config.value(key), config.sources.get(key, "default"))

    def _check_source(self, key: str) -> None:
        source = self._house.config.sources.get(key, "default")
        if source not in ("default", str(self._house.config.file)):
            raise Conflict(f"{key} is set by {source}, which wins. Nothing was changed.")

    def _clear_key(self, provider: str) -> tuple[str, ...]:
        """Remove the key of a provider whose address changes; before it changes."""
        config = self._house.config
        variables = [f"{provider.upper()}_API_KEY"]
        variables += ["GEMINI_API_KEY"] if provider == "google" else []
        for each in variables:
            if each in config.credentials:
                raise Conflict(
                    f"The key of {provider} is in the variable {each}, and would be sent to the "
                    "new address. Unset it first, or give the provider another name. "
                    "Nothing was changed."
                )
        key = f"providers.{provider}.api_key"
        if config.providers.get(provider, ProviderConfig()).api_key is None:
            return ()
        unset_value(config.file, key)
        self._drop_key(provider)
        self._use(_changed(config, key, provider, "api_key", None))
        return (key,)

    def _drop_key(self, provider: str) -> None:
        """Remove the file of a key, if it is one that was made here."""
        key = self._house.config.providers.get(provider, ProviderConfig()).api_key
        file = self._find_key_file(provider)
        if key is not None and key.text == f"file:{file}":
            file.unlink(missing_ok=True)

    def _find_key_file(self, provider: str) -> Path:
        return self._house.config.file.parent.absolute() / "keys" / f"{provider}.key"

    def _put_key(self, provider: str, secret: str) -> str:
        """Write a key to its file; returns how the config file names it."""
        secret = secret.strip()
        if not (secret.isascii() and secret.isprintable() and 0 < len(secret) <= LONGEST_KEY):
            raise InvalidInput("That is no key: it has to be one line of ordinary characters.")
        file = self._find_key_file(provider)
        make_directory(file.parent)
        _make_private(file)
        put_bytes(file, f"{secret}\n".encode())
        return f"file:{file}"

    def _use(self, config: Config) -> None:
        house = self._house
        house.config = config
        if "models" in house.__dict__:
            house.models.change(make_models_setup(config))


def _split(key: str) -> tuple[str | None, str]:
    """The provider of a key, if it has one, and its name; `InvalidInput` for any other key."""
    path = split_key(key)
    if path is not None and len(path) == 1 and path[0] in GENERAL:
        return None, path[0]
    if path is not None and path[0] == "providers" and len(path) == 3 and path[2] in OF_PROVIDERS:
        return path[1], path[2]
    ours = ", ".join((*GENERAL, *(f"providers.NAME.{each}" for each in OF_PROVIDERS)))
    raise InvalidInput(
        f'"{key[:100]}" can\'t be changed here, only: {ours}. `clew config set` changes the rest. '
        "Nothing was changed."
    )


def _changed(config: Config, key: str, provider: str | None, name: str, value: Any) -> Config:
    """The configuration with another value, which is in its file now."""
    sources = {**config.sources, key: str(config.file)}
    if value is None:
        sources[key] = "default"
        if provider is not None:
            del sources[key]
    if provider is None:
        default = None if value is None else value
        return msgspec.structs.replace(config, sources=sources, **{name: default})
    given = config.providers.get(provider, ProviderConfig())
    blank = getattr(ProviderConfig(), name)
    changed = msgspec.structs.replace(given, **{name: blank if value is None else value})
    providers = {**config.providers, provider: changed}
    return msgspec.structs.replace(config, sources=sources, providers=providers)


def _make_private(file: Path) -> None:
    """Make an empty file that only its owner can read, before a secret comes into it."""
    file.touch(mode=0o600, exist_ok=True)
    file.chmod(0o600)
