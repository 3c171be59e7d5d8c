"""Rules between the rooms that import-linter can't see: who reads the environment, and names.

The import rules themselves are in pyproject.toml and run in `make check`.
"""

from __future__ import annotations

import ast
import re
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


def list_names(tree: ast.AST) -> set[str]:
    """Everything that a module defines or imports, at any depth."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names |= {alias.asname or alias.name for alias in imported}
    return names


def is_there(dotted: str) -> bool:
    """Whether a name such as `core.keys` or `runtime.cron.Job` leads to a module or into one."""
    place = PACKAGE
    for part in dotted.removeprefix("clew.").split("."):
        module = place / f"{part}.py"
        if (place / part).is_dir():
            place /= part
        elif module.exists():
            place = module
        elif place.is_file():
            return part in list_names(ast.parse(place.read_text(encoding="utf-8")))
        else:
            return part in list_names(
                ast.parse((place / "__init__.py").read_text(encoding="utf-8"))
            )
    return True


def test_a_module_that_a_text_names_exists() -> None:
    rooms = "|".join(sorted(each.stem for each in PACKAGE.iterdir() if each.name[0] not in "_."))
    named = re.compile(rf"`((?:clew\.)?(?:{rooms})(?:\.\w+)+)`")
    files = (".json", ".lock", ".toml")
    missing = [
        f"{path.relative_to(PACKAGE)}: {dotted}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for dotted in named.findall(path.read_text(encoding="utf-8"))
        if not dotted.endswith(files) and not is_there(dotted)
    ]
    assert missing == []
