"""The page that a browser sees first: it changes the code of a one-time link for a cookie.

Files of the package, each at an address of its own; no path is ever made from what a client sends.
Open to all, since there is nothing in them. What they may do is `guard`'s policy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILES: Final = {
    "/": ("index.html", "text/html"),
    "/welcome.js": ("welcome.js", "text/javascript"),
    "/welcome.css": ("welcome.css", "text/css"),
}


def make_page_routes() -> list[Route]:
    """A route to each of the files."""
    folder = resources.files("clew.gateway").joinpath("welcome")
    return [
        Route(path, _sender(folder.joinpath(name).read_bytes(), media_type))
        for path, (name, media_type) in FILES.items()
    ]


def _sender(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(_request: Request) -> Response:
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return send
