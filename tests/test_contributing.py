"""CONTRIBUTING.md answers where things are: each path exists, and has what it is said to have."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "clew"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<question>[^|]+\?) \| `(?P<path>[^`]+)` \| `(?P<name>\w+)` \|$", re.MULTILINE
)
ANSWERS = [match.group("question", "path", "name") for match in ROW.finditer(GUIDE)]


def list_names(tree: ast.Module) -> set[str]:
    """What a module defines: functions, classes and their methods, constants."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_ten_questions_are_answered() -> None:
    assert len({question for question, _, _ in ANSWERS}) == 10


@pytest.mark.parametrize(("question", "path", "name"), ANSWERS)
def test_the_answer_is_where_the_guide_says(question: str, path: str, name: str) -> None:
    module = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
    assert name in list_names(module), question


def test_every_room_is_in_the_guide() -> None:
    named = set(
        re.findall(r"`(\w+)`", GUIDE[GUIDE.index("| room |") : GUIDE.index("Start reading")])
    )
    rooms = {each.stem for each in PACKAGE.iterdir() if each.name[0] not in "_."}
    rooms -= {"version", "configfile", "py"}  # a number, and a part of config
    assert rooms - named == set()


def test_every_file_that_the_guide_names_exists() -> None:
    paths = re.findall(r"`([\w/]+/[\w/.]+\.py)`", GUIDE)
    places = (PACKAGE, ROOT)
    assert [path for path in paths if not any((each / path).exists() for each in places)] == []
