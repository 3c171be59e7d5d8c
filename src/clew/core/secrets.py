"""Passwords in URLs, and text without them. What reads URLs for real is elsewhere."""

from __future__ import annotations

import re

HIDDEN = "(hidden)"

# Up to the last @: one in a password that should have been %40 must not show the rest of it.
_USER = re.compile(r"^(?P<before>[A-Za-z][\w+.-]*:/{1,3}[^/?#@:]*):.*@", re.DOTALL)
_FIELD = re.compile(r"(?P<before>[?&][^=&#]*(?:password|token|secret|key)=)[^&#]*", re.IGNORECASE)


def hide_password(text: str) -> str:
    """A URL without its password; any other text as it is."""
    if "://" not in text and ":/" not in text:
        return text
    text = _USER.sub(rf"\g<before>:{HIDDEN}@", text)
    return _FIELD.sub(rf"\g<before>{HIDDEN}", text)
