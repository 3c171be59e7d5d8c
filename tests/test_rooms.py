"""Rules between the rooms that import-linter can't see: who reads the environment.

The import rules themselves are in pyproject.toml and run in `make check`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "clew"
READERS = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def find_environment_uses(tree: ast.AST) -> Iterator[int]:
    """Lines that reach the environment: `os.environ`, `from os import getenv`, under any alias."""
    names = {"os"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.name == "os" and alias.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            if READERS & {alias.name for alias in node.names}:
                yield node.lineno
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in READERS
            and isinstance(node.value, ast.Name)
            and node.value.id in names
        ):
            yield node.lineno


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.environ['A']",
        "import os\nos.getenv('A')",
        "import os as system\nsystem.environ.get('A')",
        "from os import environ",
        "from os import path, getenv as read",
    ],
)
def test_every_way_to_the_environment_is_noticed(source: str) -> None:
    assert list(find_environment_uses(ast.parse(source)))


def test_only_config_reads_the_environment() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    assert PACKAGE / "config.py" in modules
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}"
        for path in modules
        if path != PACKAGE / "config.py"
        for line in find_environment_uses(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
