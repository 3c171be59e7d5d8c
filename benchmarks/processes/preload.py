"""Imported by a process that forks others: all of clew is loaded, so that none of them has to.

clew loads much of itself when it is first needed. Each fork would do that again, which takes many
times as long as what most of them are forked for.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
from collections.abc import Iterable

import clew

LATE = (
    "clew.testing.scripted",
    # What libraries load when they are first used.
    "concurrent.futures.thread",
    "encodings.idna",
    "genai_prices.data",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.http.h11_impl",
)


def load(path: Iterable[str], package: str) -> None:
    """All modules below a package; those for tests, which load a test framework, are left out."""
    for found in pkgutil.iter_modules(path, f"{package}."):
        if found.name != "clew.testing":
            module = importlib.import_module(found.name)
            if found.ispkg:
                load(module.__path__, found.name)


load(clew.__path__, "clew")
for name in LATE:
    importlib.import_module(name)

# Pages that the garbage collector does not touch stay shared.
gc.freeze()
