"""The documentation against the code: nothing that it names is missing, nothing is left out."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import apsw
import click
import pytest

from clew import config, errors
from clew.cli import main as clew
from clew.core import settings
from clew.core.changes import Change
from clew.core.tool_rules import judge
from clew.store.sqlite.schema import apply, shipped_migrations
from clew.transfer import jsonl
from scripts import consoles, page_pictures, picture
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted(DOCS.rglob("*.md")),
]
# The reference pages that `make docs` writes are no place where a reader learns of a command.
TAUGHT = [DOCS / "tutorial.md", *sorted((DOCS / "guides").glob("*.md"))]

BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
SPAN = re.compile(r"(?<!`)(`+)(?!`)(?P<code>.+?)(?<!`)\1(?!`)")


class Block(NamedTuple):
    """A fenced block; `mark` is what a comment right above it says."""

    mark: str
    language: str
    code: str


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def every_page(pages: list[Path] = PAGES) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=name_of)


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [Block(m["mark"] or "", m["language"], m["code"]) for m in BLOCK.finditer(text)]


def prose_of(page: Path) -> str:
    """The page without its fenced blocks."""
    return BLOCK.sub("", page.read_text("utf-8"))


# --- links ------------------------------------------------------------------------------------


def links_of(page: Path) -> list[str]:
    prose = SPAN.sub(lambda span: "" if "](" in span["code"] else span[0], prose_of(page))
    return re.findall(r"\]\(([^)\s]+)\)", prose)


def anchors_of(page: Path) -> set[str]:
    """The anchors of the headings, made as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@every_page()
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{link} leaves the repository"
        assert target.exists(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors_of(target), f"{link}: no such heading"


def test_every_page_of_the_docs_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(index)}

    assert {page for page in PAGES if page.is_relative_to(DOCS)} <= linked | {index}


@pytest.mark.parametrize(
    "path",
    [path for path in [*PAGES, *DOCS.rglob("*.svg")] if path.exists()],
    ids=name_of,
)
def test_no_page_names_a_machine_or_loads_from_elsewhere(path: Path) -> None:
    text = path.read_text("utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")

    assert re.findall(r"(?<![\w.~-])/(?:root|work)\b", text) == []
    # example.org is nobody's, and is there to be written about.
    own = r"localhost[:/]|127\.0\.0\.1[:/]|(?:\w+\.)?example\.org\b"
    assert re.findall(rf"https?://(?!{own})[^\s)>\"]+", text) == []


# --- commands and options ---------------------------------------------------------------------

COMMAND = re.compile(r"(?:^|(?<=[\s(]))clew(?=[ \n]|$)(?P<rest>[^`|;&)\n]*)", re.MULTILINE)


def code_of(page: Path) -> Iterator[str]:
    """Everything that a reader may type: code spans, shell blocks, and indented ones."""
    for block in blocks_of(page):
        if block.language in ("", "console", "sh", "text"):
            yield block.code
    prose = prose_of(page)
    yield from re.findall(r"^    (\S.*)$", prose, re.MULTILINE)
    for span in SPAN.finditer(re.sub(r"^    .*$", "", prose, flags=re.MULTILINE)):
        yield span["code"]


def typed_commands(page: Path) -> Iterator[list[str]]:
    """The command lines of a page, in words, without the `clew`."""
    # A command inside of another one, as in `clew show "$(clew pick)"`, is one of its own.
    for code in (part for whole in code_of(page) for part in whole.split("$(")):
        for match in COMMAND.finditer(code):
            rest = re.split(r"\s#\s|\s{2}", match["rest"])[0]  # what follows explains it
            try:
                yield shlex.split(rest)
            except ValueError:  # a sentence with an apostrophe
                yield rest.split()


def options_of(command: click.Command) -> dict[str, click.Option]:
    options = [each for each in command.params if isinstance(each, click.Option)]
    found = {name: each for each in options for name in (*each.opts, *each.secondary_opts)}
    return found | dict.fromkeys(("-h", "--help"), click.Option(["--help"], is_flag=True))


def check(words: list[str]) -> tuple[str, ...]:
    """Follow a command line down the tree of commands; returns the names it went through."""
    command: click.Command = clew
    path: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word == "--":
            break
        name = word.partition("=")[0]
        if name.startswith("--") or re.fullmatch(r"-\w", name):
            known = options_of(command)
            assert name in known, f"clew {' '.join(words)}: {' '.join(path)} has no {name}"
            if not known[name].is_flag and "=" not in word:
                next(waiting, None)
        elif isinstance(command, click.Group) and re.match(r"[a-z]", word):
            child = command.get_command(click.Context(command), word)
            assert child is not None, f"clew {' '.join(words)}: there is no {word}"
            command = child
            path.append(word)
        elif isinstance(command, click.Group):
            break  # COMMAND, ID, …: a placeholder, or the end of a sentence
    return tuple(path)


def command_paths(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        child = group.get_command(context, name)
        assert child is not None
        if isinstance(child, click.Group):
            yield from command_paths(child, (*above, name))
        elif not child.hidden:
            yield (*above, name)


@every_page()
def test_every_command_and_option_that_is_named_exists(page: Path) -> None:
    for words in typed_commands(page):
        check(words)


def test_every_command_is_taught() -> None:
    taught = {check(words) for page in TAUGHT for words in typed_commands(page)}

    assert set(command_paths(clew)) - taught == set()


# --- settings ---------------------------------------------------------------------------------


def settings_of(page: Path) -> list[str]:
    """The TOML of a page that is a part of the config file."""
    codes = [block.code for block in blocks_of(page) if block.language == "toml"]
    return [code for code in codes if not code.startswith("[project.")]


@every_page([page for page in TAUGHT if page.name != "personalities.md"])
def test_every_setting_that_is_shown_is_accepted(page: Path, tmp_path: Path) -> None:
    for code in settings_of(page):
        list(config.settings_in(code, tmp_path / "config.toml"))
    for words in typed_commands(page):
        if words[:2] == ["config", "set"] and len(words) == 4 and words[2:] != ["store.url", "URL"]:
            config.set_value(tmp_path / "config.toml", *words[2:])


SHELL_RULES = {
    "shell:git log": (["git log", "git log --oneline -3"], ["git log --output=x", "git push"]),
    "shell=make test": (["make test"], ["make test SHELL=x", "make"]),
    "shell": (["anything; at > all"], []),
    "shell:git status": (["git status --short"], ["git status > x", "git stash"]),
    "shell:git push": (["git push --force"], ["git pull"]),
    "shell:rm": (["rm x"], ["rmdir x"]),
    "shell:sudo": (["sudo x"], ["sudoedit x"]),
    "shell:ls": (["ls -l"], ["lsof"]),
    "shell:sort -o out": (["sort -o out in"], ["sort -o other in"]),
}
"""Every rule for commands in the documents: what fits it, and what does not."""


def test_every_rule_for_commands_that_is_shown_does_what_it_says() -> None:
    shown = {
        rule
        for page in PAGES
        for rule in re.findall(
            r"[`\"'\[ ](shell[:=][^`\"',\]|\n]+)[`\"',\]]", page.read_text("utf-8")
        )
        if not rule.endswith((":", "="))
    }
    assert shown - set(SHELL_RULES) == set()
    for rule, (fitting, others) in SHELL_RULES.items():
        for command, verdict in [*((each, "allow") for each in fitting),
                                 *((each, "ask") for each in others)]:  # fmt: skip
            assert judge("shell", {"command": command}, None, (rule,), ()) == verdict


# --- reference --------------------------------------------------------------------------------


def rows_of(page: Path) -> list[list[str]]:
    """The cells of all table rows."""
    lines = [line for line in prose_of(page).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("key", config.KEYS)
def test_every_config_key_is_documented_with_its_default(key: str) -> None:
    page = DOCS / "guides" / "configuration.md"
    defaults = config.load(home="/nowhere", environ={})
    documented = {row[0].strip("`"): row[1] for row in rows_of(page)}

    value = defaults.value(key)
    expected = "not set" if value is None else f"`{value}`"
    assert documented[key] == expected or (key == "store.url" and "sqlite://" in documented[key])


def test_every_key_of_a_section_with_a_name_is_documented() -> None:
    text = (DOCS / "guides" / "configuration.md").read_text("utf-8")
    keys = [
        f"`{family}.NAME.{field}`"
        for family, kind in settings.FAMILIES.items()
        for field in kind.__struct_fields__
    ]

    assert [key for key in keys if key not in text] == []


def test_every_variable_and_global_option_is_documented() -> None:
    text = (DOCS / "guides" / "configuration.md").read_text("utf-8")
    names = {*config.VARIABLES, "CLEW_HOME", "NO_COLOR", *options_of(clew)}

    assert [name for name in names - {"-h", "--help", "--version"} if name not in text] == []


def real_tables() -> dict[str, set[str]]:
    connection = apsw.Connection(":memory:")
    apply(connection, shipped_migrations())
    names = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name"
        )
        # SQLite's own, and what FTS5 keeps behind its tables.
        if not re.match(r"sqlite_|messages_(fts|spaceless)_", name)
    ]
    columns = "SELECT name FROM pragma_table_info(?)"
    return {name: {each for (each,) in connection.execute(columns, (name,))} for name in names}


def documented_tables() -> dict[str, set[str]]:
    text = (DOCS / "reference" / "schema.md").read_text("utf-8")
    sections = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return {
        name: {
            column
            for cell in re.findall(r"^\| (`[^|]*) \|", body, re.MULTILINE)
            for column in re.findall(r"`(\w+)`", cell)
        }
        for name, body in sections
    }


def test_the_schema_page_has_every_table_and_column_and_no_other() -> None:
    assert documented_tables() == real_tables()


def test_the_exit_codes_page_has_every_code_that_an_error_ends_with() -> None:
    documented = {row[0] for row in rows_of(DOCS / "reference" / "exit-codes.md")}
    kinds = [each for each in vars(errors).values() if inspect.isclass(each)]
    used = {str(each.exit_code) for each in kinds if issubclass(each, errors.ClewError)}

    assert used | {"0", "2", "130"} <= documented


def test_the_transcript_page_has_every_kind_of_line_and_its_fields() -> None:
    rows = {row[0].strip("`"): row[1] for row in rows_of(DOCS / "reference" / "jsonl.md")}

    for line in get_args(jsonl.Line):
        fields = rows[line.__struct_config__.tag]
        assert [name for name in line.__struct_encode_fields__ if f"`{name}`" not in fields] == []


def test_the_guides_name_every_change_and_every_part_of_the_contract() -> None:
    from clew.testing import contract

    using = (DOCS / "guides" / "using-the-store.md").read_text("utf-8")
    writing = (DOCS / "guides" / "writing-a-store.md").read_text("utf-8")

    assert [each.__name__ for each in get_args(Change) if f"`{each.__name__}`" not in using] == []
    assert [name for name in contract.__all__ if f"`{name}`" not in writing] == []


# --- programs ---------------------------------------------------------------------------------


def marked_blocks(mark: str) -> list[tuple[Path, str, str]]:
    """Marked programs, with the text block that follows, if any: what they print."""
    found = []
    for page in PAGES:
        blocks = blocks_of(page)
        for block, after in itertools.zip_longest(blocks, blocks[1:]):
            if block.mark == mark:
                printed = after.code if after and after.language == "text" else ""
                found.append((page, block.code, printed))
    return found


def run_python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8",
        timeout=PATIENCE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("page", "code", "printed"),
    marked_blocks("runnable"),
    ids=[name_of(page) for page, _, _ in marked_blocks("runnable")],
)
def test_programs_run_and_print_what_is_said(
    page: Path, code: str, printed: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(code, encoding="utf-8")

    ran = run_python("program.py", cwd=tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert not printed or ran.stdout == printed


def test_the_program_of_the_readme_runs(tmp_path: Path) -> None:
    (code,) = [block.code for block in blocks_of(ROOT / "README.md") if block.language == "python"]
    place = code.replace("sqlite:///tmp/demo/", f"sqlite://{tmp_path}/demo/")
    assert place != code
    (tmp_path / "program.py").write_text(place, encoding="utf-8")

    ran = run_python("program.py", cwd=tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Hello!" in ran.stdout


def test_the_contract_can_be_run_as_the_guide_says(tmp_path: Path) -> None:
    ((_, code, _),) = marked_blocks("runnable with pytest")
    (tmp_path / "test_mine.py").write_text(code, encoding="utf-8")
    scope = "asyncio_default_fixture_loop_scope=function"

    chosen = "test_messages_are_numbered_from_one"
    ran = run_python("-m", "pytest", "-q", "-o", scope, "-k", chosen, cwd=tmp_path)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


def test_the_queries_for_the_shell_find_something(tmp_path: Path) -> None:
    made = run_python("-m", "clew", "demo", "--home", str(tmp_path / "try"), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    page = DOCS / "guides" / "sqlite-shell.md"
    queries = [block.code for block in blocks_of(page) if block.language == "sql"]
    assert queries

    for query in queries:
        ran = subprocess.run(
            ["sqlite3", "-readonly", tmp_path / "try" / "sessions.db", query],
            capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, ""), query
        assert ran.stdout, query


# --- pictures and consoles --------------------------------------------------------------------


def test_every_picture_is_drawn_and_shown() -> None:
    drawn = {path.resolve() for path in (DOCS / "pictures").iterdir()}
    shown = {(page.parent / link).resolve() for page in PAGES for link in links_of(page)}

    assert {path.stem for path in drawn} == {*picture.PICTURES, *page_pictures.PICTURES}
    assert drawn <= shown


@every_page(consoles.pages_with_consoles())
def test_consoles_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    """`scripts/consoles.py` writes down anew what they print."""
    steps = consoles.steps_of(page.read_text("utf-8"))

    answers = consoles.answer(page, steps, tmp_path)

    for step, answer in zip(steps, answers, strict=True):
        printed = "\n".join(answer.printed)
        assert answer.code == 0, f"$ {step.typed}\n{printed}"
        assert consoles.differences(step, answer) == [], f"$ {step.typed}\n{printed}"
