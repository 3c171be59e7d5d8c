"""Values as the JSON that the command line prints: for every parser, and harmless to look at."""

from __future__ import annotations

from typing import Final

import msgspec

from clew.core.jsontext import to_wire

# Terminals obey these; inside JSON's strings they can be spelled out.
_CONTROLS: Final = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}


def encode(value: object, *, indent: bool = False) -> str:
    """The value as one JSON document."""
    data = to_wire(value)
    if indent:
        data = msgspec.json.format(data, indent=2)
    return data.decode().translate(_CONTROLS)
