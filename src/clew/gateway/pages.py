"""The dashboard's files, at fixed addresses: no path is ever made from what a client sends.

They are open to all, since there is nothing secret in them. The page's script is written as ES
modules, one idea each, and sent as one file: at the start of the gateway `join_modules` puts each
module into a function of its own, in the order of their imports. So a first visit takes few
requests, and nothing has to be built. `join_modules` knows only the forms of `import` and `export`
that the dashboard uses, and refuses others. Comments and indentation, two fifths of the files, are
for those who read them here, and are not sent.
"""

from __future__ import annotations

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
_INDENTS: Final = re.compile(r"^\s+", re.MULTILINE)


def make_page_routes() -> list[Route]:
    """A route to each page and file."""
    folder = resources.files("clew.gateway").joinpath("dashboard")
    page = _sender((folder / "index.html").read_bytes(), "text/html")
    return [
        *(Route(path, page) for path in PAGES),
        *(Route(path, _sender((folder / path[1:]).read_bytes(), FILES[path])) for path in FILES),
        Route("/app.js", _sender(_script().encode(), "text/javascript")),
        Route("/app.css", _sender(_styles().encode(), "text/css")),
    ]


@cache
def _script() -> str:
    folder = resources.files("clew.gateway").joinpath("dashboard")
    return join_modules(_read_all(folder, ".js"), START)


@cache
def _styles() -> str:
    folder = resources.files("clew.gateway").joinpath("dashboard", "styles")
    whole = "\n".join(text for _, text in sorted(_read_all(folder, ".css").items()))
    return _INDENTS.sub("", _STYLE_COMMENTS.sub("", whole))


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
    exports = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(lambda match: _take(path, match), text))
    other = _OTHER.search(body)
    if other is not None:
        raise ValueError(f"{path}: {body[other.start() :].splitlines()[0]!r} can't be joined")
    body = _shorten(body)
    return f"const {_name(path)} = (() => {{ // {path}\n{body}\nreturn {{ {exports} }};\n}})();"


def _shorten(text: str) -> str:
    """A script without comments and indentation; what is inside of a template stays as it is."""
    lines: list[str] = []
    is_template = False
    for line in _SCRIPT_COMMENTS.sub("", text).splitlines():
        lines.append(line if is_template else line.lstrip())
        is_template ^= line.count("`") % 2 == 1
    return "\n".join(each for each in lines if each)


def _take(path: str, match: re.Match[str]) -> str:
    """An import as a constant; without names it is only a matter of order."""
    if match[1] is None:
        return ""
    return f"const {{{match[1].replace(' as ', ': ')}}} = {_name(_resolve(path, match[2]))};\n"


def _resolve(path: str, named: str) -> str:
    return normpath(join(dirname(path), named))


def _name(path: str) -> str:
    return "$" + re.sub(r"\W", "_", path)


def _sender(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """Send a file; a browser that has it asks only whether it is still the same."""
    packed = gzip.compress(content, mtime=0)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag, "Vary": "Accept-Encoding"}

    async def send(request: Request) -> Response:
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                packed, media_type=media_type, headers=headers | {"Content-Encoding": "gzip"}
            )
        return Response(content, media_type=media_type, headers=headers)

    return send
