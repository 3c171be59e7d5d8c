"""The models that can be named."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.api.fields import Word
from clew.api.operation import NoParams, Params, row
from clew.core.models import LocalServer, ModelInfo


class GetModel(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model by its name; without one, the default."""

    name: Word | None = None


class TryModel(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model by its name; without one, the default."""

    name: Word | None = None


class ModelTested(msgspec.Struct, frozen=True):
    """Whether a model answers a tiny question, in how many milliseconds, and what it said.

    `words` is its answer, or why there is none and what to do.
    """

    model: str
    works: bool
    ms: int
    words: str


class ModelList(msgspec.Struct, frozen=True):
    """The models that can be named there; `current` is the default."""

    models: tuple[ModelInfo, ...]
    current: ModelInfo


class ServersFound(msgspec.Struct, frozen=True):
    """Servers of models on that machine, each with its models."""

    servers: tuple[LocalServer, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "models.list", "GET", "models", "read", NoParams, ModelList,
    "List the models.",
)  # fmt: skip
GET: Final = row(
    "models.get", "GET", "model", "read", GetModel, ModelInfo,
    "Get a model.",
)  # fmt: skip
TEST: Final = row(
    "models.test", "POST", "models/test", "admin", TryModel, ModelTested,
    "Ask a model one tiny question, to see whether it works.",
)  # fmt: skip
SERVERS: Final = row(
    "models.servers", "GET", "models/servers", "admin", NoParams, ServersFound,
    "Look for servers of models, such as Ollama, on the machine.",
)  # fmt: skip
ROWS: Final = (LIST, GET, TEST, SERVERS)
