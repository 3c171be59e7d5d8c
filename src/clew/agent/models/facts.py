"""What is known about models that are elsewhere: from pydantic-ai's profiles and genai-prices.

Both take more than a second to import, so what they say is kept in a small file: a chat with a
model that was used before starts without them. The file is thrown away when either is updated.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from clew.agent.models.setup import Kind
from clew.core.models import Thinking
from clew.files.durable import make_directory

TIERS: Final[dict[str, tuple[str, ...]]] = {
    "openai": ("auto", "default", "flex", "priority"),
    "anthropic": ("auto", "default"),
    "google": ("default", "flex", "priority"),
}


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model can, as far as anybody knows."""

    context_window: int | None = None
    tools: bool = True
    images: bool = True
    thinking: tuple[Thinking, ...] = ("off",)


class _Known(msgspec.Struct):
    version: str
    facts: dict[str, Facts]


class FactBook:
    """Facts by kind of provider and model id, remembered in a file of the cache directory."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Facts] | None = None

    def get_facts(self, kind: Kind, model_id: str, *, direct: bool) -> Facts:
        """What is known; `direct` for a provider's own address, not one that speaks like it."""
        if self._known is None:
            self._known = self._read()
        key = f"{kind}{'' if direct else '*'}/{model_id}"
        if key not in self._known:
            self._known[key] = look_up(kind, model_id, direct=direct)
            self._write()
        return self._known[key]

    def _read(self) -> dict[str, Facts]:
        try:
            known = msgspec.json.decode(self._file.read_bytes(), type=_Known)
        except (OSError, msgspec.MsgspecError):
            return {}
        return known.facts if known.version == _version() else {}

    def _write(self) -> None:
        # Only a cache: where it can't be kept, the next start is slower, and that is all.
        known = _Known(version=_version(), facts=self._known or {})
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            make_directory(self._file.parent)
            draft.write_bytes(msgspec.json.encode(known))
            draft.replace(self._file)


def _version() -> str:
    """Which installed libraries it is: their files, since asking for the version takes longer."""
    parts = []
    for name in ("pydantic_ai", "genai_prices"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        found = Path(spec.origin).stat()
        parts.append(f"{name}:{found.st_mtime_ns}:{found.st_size}")
    return " ".join(parts)


def look_up(kind: Kind, model_id: str, *, direct: bool) -> Facts:
    """Ask the libraries."""
    profile = _profile(kind, model_id)
    thinks = profile.get("supports_thinking") or profile.get("thinking_always_enabled")
    levels: tuple[Thinking, ...] = ("low", "medium", "high") if thinks else ()
    if not profile.get("thinking_always_enabled"):
        levels = ("off", *levels)
    return Facts(
        context_window=_context_window(kind, model_id) if direct else None,
        tools=profile.get("supports_tools", True),
        images=profile.get("supports_image_input", True),
        thinking=levels,
    )


def list_known(kind: Kind) -> tuple[str, ...]:
    """The ids of a provider's models that pydantic-ai knows."""
    _load()
    from pydantic_ai.models import known_model_names  # noqa: PLC0415  # a second to import

    prefix = f"{kind}:"
    return tuple(
        name.removeprefix(prefix) for name in known_model_names() if name.startswith(prefix)
    )


def _load() -> None:
    """Load the whole library first, and wait for a thread that is at it.

    Python lets one thread into a part of a package that another is still loading; both fail then.
    """
    importlib.import_module("pydantic_ai")


def _profile(kind: Kind, model_id: str) -> dict[str, Any]:
    # The profiles, not the providers: those would import the provider's own library.
    _load()
    from pydantic_ai.profiles.anthropic import (  # noqa: PLC0415  # a second to import
        anthropic_model_profile,
    )
    from pydantic_ai.profiles.google import google_model_profile  # noqa: PLC0415  # likewise
    from pydantic_ai.profiles.openai import openai_model_profile  # noqa: PLC0415  # likewise

    ask: dict[str, Any] = {
        "anthropic": anthropic_model_profile,
        "google": google_model_profile,
        "openai": openai_model_profile,
    }
    return dict(ask[kind](model_id) or {})


def _context_window(kind: Kind, model_id: str) -> int | None:
    from genai_prices import data_snapshot  # noqa: PLC0415  # half a second to import

    try:
        _, model = data_snapshot.get_snapshot().find_provider_model(model_id, None, kind, None)
    except LookupError:
        return None
    return model.context_window
