"""Another configuration for a gateway that runs: what is used at once, and what needs a restart.

A new configuration is read and checked as a whole first; if anything in it is wrong, the old one
stays. Keys that are not in `LIVE` keep their old values until the gateway is started again, so that
no part of the process works with half of a change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from clew.api.gateway import ConfigReloaded
from clew.config import Config
from clew.core.settings import split_key
from clew.errors import ClewError, InvalidInput
from clew.wiring.checks import check_config
from clew.wiring.models import make_models_setup

if TYPE_CHECKING:
    from clew.wiring.house import House

LIVE_GENERAL: Final = (
    "model",
    "thinking",
    "service_tier",
    "owners",
    "guests",
    "agents",
    "bindings",
)
LIVE_MODELS: Final = ("allowed", "aliases")
LIVE_SESSION: Final = (
    "dm_scope",
    "guest_dm_scope",
    "main_key",
    "identity_links",
    "reset",
    "reset_by_type",
    "reset_by_channel",
    "idle_minutes",
    "reset_triggers",
    "send_policy",
)
LIVE: Final = (
    *LIVE_GENERAL,
    *(f"models.{each}" for each in LIVE_MODELS),
    "providers",
    *(f"session.{each}" for each in LIVE_SESSION),
    "tools",
)
"""Keys and sections that a reload brings into use. All others need a restart."""

BESIDE: Final = ("terminal",)
"""Sections that a gateway does not use."""


class Reloader:
    """Reads the configuration of a gateway anew. `read` reads it as it was read at the start."""

    def __init__(self, house: House, read: Callable[[], Config]) -> None:
        self._house = house
        self._read = read
        self._alone = asyncio.Lock()
        self._looked: tuple[object, Config | None, str | None] | None = None

    async def reload(self) -> ConfigReloaded:
        """Use the configuration of the file from now on; raises, and changes nothing, if it is
        wrong.
        """
        async with self._alone:
            try:
                wanted = await asyncio.to_thread(self._read_checked)
            except ClewError as error:
                raise InvalidInput(
                    f"The configuration was not reloaded, and the old one stays: {error}"
                ) from error
            changed = tuple(list_changes(self._house.effective_config, wanted))
            used = tuple(each for each in changed if is_live(each))
            if used:
                self._house.use_config(
                    _merge(self._house.config, wanted), make_models_setup(wanted)
                )
            return ConfigReloaded(used, tuple(each for each in changed if not is_live(each)))

    def find_changes(self) -> tuple[tuple[str, ...], str | None]:
        """The keys that the file has otherwise than this process, and what is wrong with it."""
        seen = self.look()
        if self._looked is None or self._looked[0] != seen:
            try:
                self._looked = (seen, self._read(), None)
            except ClewError as error:
                self._looked = (seen, None, str(error))
        _, wanted, problem = self._looked
        if wanted is None:
            return (), problem
        return tuple(list_changes(self._house.effective_config, wanted)), None

    def look(self) -> object:
        """A value that differs when the file was written meanwhile; None if there is none."""
        try:
            found = self._house.config.file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read_checked(self) -> Config:
        wanted = self._read()
        check_config(wanted)
        return wanted


def is_live(key: str) -> bool:
    """Whether a reload brings a key into use."""
    return any(key == each or key.startswith(f"{each}.") for each in LIVE)


def list_changes(old: Config, new: Config) -> Iterator[str]:
    """The keys with different values, of those that a gateway uses; secrets are compared too."""
    for key in sorted({*old.sources, *new.sources}):
        if key.partition(".")[0] not in BESIDE and _find(old, key) != _find(new, key):
            yield key


def _find(config: Config, key: str) -> Any:
    path = split_key(key) or ()
    found: Any = config
    for part in ("imports", *path[1:]) if path[:1] == ("import",) else path:
        found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
    return found


def _merge(old: Config, new: Config) -> Config:
    """The new configuration, with the old values of what needs a restart."""
    sources = {key: each for key, each in old.sources.items() if not is_live(key)}
    sources |= {key: each for key, each in new.sources.items() if is_live(key)}
    models = {each: getattr(new.models, each) for each in LIVE_MODELS}
    session = {each: getattr(new.session, each) for each in LIVE_SESSION}
    return msgspec.structs.replace(
        old,
        **{each: getattr(new, each) for each in LIVE_GENERAL},
        models=msgspec.structs.replace(old.models, **models),
        session=msgspec.structs.replace(old.session, **session),
        providers=new.providers,
        tools=new.tools,
        sources=sources,
    )
