"""The models that can be named."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.api.operation import NoParams, row
from clew.core.models import ModelInfo


class ModelList(msgspec.Struct, frozen=True):
    """The models that can be named there; `current` is the one that answers if nobody chooses."""

    models: tuple[ModelInfo, ...]
    current: ModelInfo


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "models.list", "GET", "models", "read", NoParams, ModelList,
    "List the models.",
)  # fmt: skip
ROWS: Final = (LIST,)
