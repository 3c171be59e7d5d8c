"""Programs that use clew see its types: what is installed says that it has some."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tests.patience import PATIENCE

PROGRAM = """
import clew

async def use(client: clew.Client) -> None:
    page = await client.sessions.list(q="login", limit=5)
    reveal_type(page)
    reveal_type(page.sessions[0].title)
    async with clew.local() as here:
        reveal_type(here)
    reveal_type(await clew.open_store("sqlite:///x.db"))
    reveal_type(clew.Usage().cost)

async def misuse(client: clew.Client) -> None:
    await client.sessions.list(limit="five")
"""

OTHERS = (
    "anthropic", "apsw", "click", "croniter", "genai_prices", "google", "httpx", "markdown_it",
    "mcp", "nh3", "openai", "psycopg", "pydantic", "pydantic_ai", "pygments", "rapidfuzz", "rich",
    "starlette", "textual", "tomlkit", "uvicorn", "websockets", "xllamacpp",
)  # fmt: skip
"""Libraries whose types are not the question here; to read them takes most of a minute."""

SETTINGS = f"""
[mypy]
strict = True
[mypy-{",".join(f"{name}.*" for name in OTHERS)}]
follow_imports = skip
"""


def test_a_program_that_uses_clew_is_checked_against_its_types(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """As an installed package: neither the program nor its settings know where the source is."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(SETTINGS, encoding="utf-8")
    cache = pytestconfig.cache.mkdir("types")

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    revealed = re.findall(r'Revealed type is "(.*)"', checked.stdout)
    assert len(revealed) == 5, checked.stdout + checked.stderr
    assert not [each for each in revealed if "Any" in each]
    assert [each.rpartition(".")[2] for each in revealed[:3]] == [
        "SessionList", "str | None", "Client",
    ]  # fmt: skip
    errors = re.findall(r"error: (.*)", checked.stdout)
    assert len(errors) == 1
    assert 'Argument "limit" to "list" of "Sessions" has incompatible type "str"' in errors[0]


def test_the_mark_that_says_so_is_a_part_of_the_package() -> None:
    assert files("clew").joinpath("py.typed").is_file()
