"""Pictures, known by their first bytes: the claim of a sender or a file's name decides nothing."""

from __future__ import annotations

_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"RIFF": "image/webp",
}


def find_picture_type(data: bytes) -> str | None:
    """The media type of a PNG, JPEG, GIF or WebP; None for everything else. Twelve bytes do."""
    for magic, kind in _BEGINNINGS.items():
        if data.startswith(magic) and (kind != "image/webp" or data[8:12] == b"WEBP"):
            return kind
    return None
