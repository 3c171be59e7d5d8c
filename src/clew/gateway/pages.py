"""The dashboard's files, at fixed addresses: no path is ever made from what a client sends.

They are open to all, since there is nothing secret in them. The page's script is written as ES
modules, one idea each, and sent as one file: at the start of the gateway `join_modules` puts each
module into a function of its own, in the order of their imports. So a first visit takes few
requests, and nothing has to be built. `join_modules` knows only the forms of `import` and `export`
that the dashboard uses, and refuses others. Comments and spaces, half of the files, are for those
who read them here, and are not sent.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from posixpath import dirname, join, normpath
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PAGES: Final = ("/", "/s/{id}", "/memory", "/usage", "/status", "/settings", "/welcome")
"""Addresses of pages. All of them are the same document, whose script reads the address."""

FILES: Final = {
    "/icon.svg": "image/svg+xml",
    "/manifest.webmanifest": "application/manifest+json",
    "/worker.js": "text/javascript",
}
"""Addresses of files that are sent as they are."""

START: Final = "main.js"
"""The module that imports all others, directly or not."""

_IMPORT: Final = re.compile(r'^import\s*(?:\{([^}]*)\}\s*from\s*)?"([^"]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(
    r"^export (?=(?:async function\*?|function\*?|const|class) (\w+))", re.MULTILINE
)
_OTHER: Final = re.compile(r"^(?:import|export)\b|await import\(", re.MULTILINE)
_SCRIPT_COMMENTS: Final = re.compile(
    r"(?<![^\s(\[])/\*\* .*?\*/|^\s*/\*\*.*?\*/|^\s*//.*?$", re.MULTILINE | re.DOTALL
)
_STYLE_COMMENTS: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s+|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|//[^\n]*|[\w$.]+|.""", re.DOTALL
)
_PATTERN: Final = re.compile(r"/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
_BEFORE_PATTERN: Final = "(,=>:[!&|?{};\n"
"""A slash behind one of these begins a regular expression; behind others it divides."""
_SIGNS: Final = "=<>?:,;{}()[]&|!*%"
"""No space is needed beside these. Plus and minus are not among them: two of them are another."""
_IN_TEMPLATE: Final = re.compile(r"\\.|`|\$\{", re.DOTALL)
_IN_EXPRESSION: Final = re.compile(r"""[`{}]|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
_STYLE_SPACES: Final = re.compile(r"\s*([{};,])\s*")
_STYLE_VALUES: Final = re.compile(r"(?<=[{;])([\w-]+): ")


def make_page_routes() -> list[Route]:
    """A route to each page and file."""
    folder = resources.files("clew.gateway").joinpath("dashboard")
    page = _sender((folder / "index.html").read_bytes, "text/html")
    return [
        *(Route(path, page) for path in PAGES),
        *(Route(path, _sender((folder / path[1:]).read_bytes, FILES[path])) for path in FILES),
        Route("/app.js", _sender(lambda: _script().encode(), "text/javascript")),
        Route("/app.css", _sender(lambda: _styles().encode(), "text/css")),
    ]


@cache
def _script() -> str:
    folder = resources.files("clew.gateway").joinpath("dashboard")
    return join_modules(_read_all(folder, ".js"), START)


@cache
def _styles() -> str:
    folder = resources.files("clew.gateway").joinpath("dashboard", "styles")
    whole = "\n".join(text for _, text in sorted(_read_all(folder, ".css").items()))
    return _shorten_styles(whole)


def _shorten_styles(text: str) -> str:
    """Styles without comments, and without spaces that say nothing. No text in them has `{};,`."""
    text = _STYLE_SPACES.sub(r"\1", _STYLE_COMMENTS.sub("", text))
    return _STYLE_VALUES.sub(r"\1:", text).replace(";}", "}\n").strip()


def _read_all(folder: Traversable, ending: str, inside: str = "") -> dict[str, str]:
    """The text of each file with this ending, by its path in the folder."""
    found: dict[str, str] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found |= _read_all(each, ending, f"{inside}{each.name}/")
        elif each.name.endswith(ending):
            found[inside + each.name] = each.read_text("utf-8")
    return found


def join_modules(modules: Mapping[str, str], start: str) -> str:
    """One script that does what the module `start` does, with all that it imports.

    `modules` are texts by path. Raises `ValueError` for a module that is not there, for modules
    that import each other in a circle, and for forms of `import` and `export` not known here.
    """
    joined: dict[str, str] = {}
    open_: list[str] = []

    def add(path: str) -> None:
        if path in joined:
            return
        if path in open_:
            raise ValueError(f"modules in a circle: {' > '.join([*open_, path])}")
        if path not in modules:
            raise ValueError(f"{open_[-1] if open_ else 'the page'} imports {path}: not there")
        open_.append(path)
        for match in _IMPORT.finditer(modules[path]):
            add(_resolve(path, match[2]))
        open_.pop()
        joined[path] = _wrap(path, modules[path])

    add(start)
    return '"use strict";\n' + "\n".join(joined.values())


def _wrap(path: str, text: str) -> str:
    """A module as a constant: the object of what it exports."""
    exports = ",".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(lambda match: _take(path, match), text))
    other = _OTHER.search(body)
    if other is not None:
        raise ValueError(f"{path}: {body[other.start() :].splitlines()[0]!r} can't be joined")
    body = _shorten(body)
    return f"const {_name(path)} = (() => {{\n{body}\nreturn {{{exports}}};\n}})();"


def _shorten(text: str) -> str:
    """A script without comments, indentation, spaces around signs, and signs before a brace.

    Texts, templates and regular expressions stay as they are. A loop has a body in braces here: an
    empty statement that is the whole body would lose its semicolon.
    """
    text = _SCRIPT_COMMENTS.sub("", text)
    pieces: list[str] = []
    at = 0
    before = "\n"
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None  # noqa: S101  # it matches any character
        piece = token[0]
        if piece == "`":
            piece = text[at : _end_of_template(text, at + 1)]
        elif piece == "/" and (before in _BEFORE_PATTERN or pieces[-2:] == ["return", " "]):
            pattern = _PATTERN.match(text, at)
            piece = piece if pattern is None else pattern[0]
        at += len(piece)
        if piece.isspace():
            piece = "\n" if "\n" in piece else " "
            after = text[at : at + 1]
            if piece == "\n" and (before in "\n([{,;" or after in ")]"):
                # A comma before the end of a list says nothing.
                if before == "," and after in ")]":
                    pieces[-1] = pieces[-1].removesuffix(",")
                continue
            if piece == " " and (before in _SIGNS or after in _SIGNS):
                continue
        elif piece.startswith("//"):
            continue
        elif piece == "}" and before in ";,":
            pieces.pop()
        pieces.append(piece)
        before = piece[-1]
    return "".join(pieces).strip()


def _end_of_template(text: str, at: int) -> int:
    """Behind the end of a template that begins before `at`; what it contains may have templates."""
    open_ = 0
    while True:
        found = (_IN_EXPRESSION if open_ else _IN_TEMPLATE).search(text, at)
        if found is None:
            raise ValueError("a template without an end")
        at = found.end()
        if found[0] == "`":
            if not open_:
                return at
            at = _end_of_template(text, at)
        elif found[0] in ("${", "{"):
            open_ += 1
        elif found[0] == "}":
            open_ -= 1


def _take(path: str, match: re.Match[str]) -> str:
    """An import as a constant; without names it is only a matter of order."""
    if match[1] is None:
        return ""
    return f"const {{{match[1].replace(' as ', ': ')}}} = {_name(_resolve(path, match[2]))};\n"


def _resolve(path: str, named: str) -> str:
    return normpath(join(dirname(path), named))


def _name(path: str) -> str:
    return "$" + re.sub(r"\W", "_", path.removesuffix(".js"))


def _sender(read: Callable[[], bytes], media_type: str) -> Callable[..., Awaitable[Response]]:
    """Send a file; a browser that has it asks only whether it is still the same."""

    @cache
    def prepare() -> tuple[bytes, bytes, dict[str, str]]:
        content = read()
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept-Encoding"}
        return content, gzip.compress(content, mtime=0), headers

    async def send(request: Request) -> Response:
        # Joining takes a moment: it is done when the first browser asks, beside everything else.
        content, packed, headers = await asyncio.to_thread(prepare)
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                packed, media_type=media_type, headers=headers | {"Content-Encoding": "gzip"}
            )
        return Response(content, media_type=media_type, headers=headers)

    return send
