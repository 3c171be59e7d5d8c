from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.agent.models.catalogue import Catalogue
from clew.agent.models.engine import Engine
from clew.agent.models.providers import KEY_VARIABLES, KINDS, ModelsSetup, ProviderSetup
from tests.weights import have_weights


@pytest.fixture(scope="session")
def weights() -> Path:
    return have_weights()


@pytest.fixture(scope="session")
def engine(weights: Path) -> Engine:
    engine = Engine(weights)
    engine.load()
    return engine


class Catalogues:
    """Makes catalogues that keep what they keep in a scratch directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self, *more: ProviderSetup, keys: tuple[str, ...] = (), **fields: Any) -> Catalogue:
        """The three well-known providers, those in `keys` with a key, and `more` of them."""
        known = {
            name: ProviderSetup(
                name=name, kind=KINDS[name], api_key=(lambda: "secret") if name in keys else None
            )
            for name in KEY_VARIABLES
        }
        known |= {each.name: each for each in more}
        places: dict[str, Any] = {"weights_dirs": (self.path / "models",), "cache_dir": self.path}
        return Catalogue(ModelsSetup(providers=tuple(known.values()), **(places | fields)))


@pytest.fixture
def catalogues(tmp_path: Path) -> Catalogues:
    return Catalogues(tmp_path / "cache")
