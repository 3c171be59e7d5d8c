"""The models that can be named."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.api.fields import Word
from clew.api.operation import NoParams, Params, row
from clew.core.models import ModelInfo


class GetModel(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model by its name; without one, the default."""

    name: Word | None = None


class ModelList(msgspec.Struct, frozen=True):
    """The models that can be named there; `current` is the default."""

    models: tuple[ModelInfo, ...]
    current: ModelInfo


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "models.list", "GET", "models", "read", NoParams, ModelList,
    "List the models.",
)  # fmt: skip
GET: Final = row(
    "models.get", "GET", "model", "read", GetModel, ModelInfo,
    "Get a model.",
)  # fmt: skip
ROWS: Final = (LIST, GET)
