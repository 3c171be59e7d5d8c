"""Messages on a channel that are commands: `/status`, `@bot /send off`, or just `stop`.

Pure, and about spelling only: which commands there are is the runtime's table, and who may use
them is in `core.people`. `/new` and its like are in `core.triggers`.
"""

from __future__ import annotations

import re
from typing import Final

from clew.core.triggers import without_mention

STOP_WORDS: Final = ("stop", "esc", "abort", "exit", "interrupt")
"""Each of them alone is `/stop`."""

_NAMED: Final = re.compile(r"/([a-z_-]+)@(\w+)(?=\s|\Z)", re.IGNORECASE)


def read_order(text: str, mention: str | None = None) -> str | None:
    """The command line that a message is; None for what is none in any case."""
    said = without_mention(text.strip(), mention).strip()
    if said.lower() in STOP_WORDS:
        return "/stop"
    if not said.startswith("/"):
        return None
    named = _NAMED.match(said)
    if named is not None:
        # Telegram's way to name one of several bots. A message for another one is not ours.
        if mention is None or named[2].lower() != mention.lstrip("@").lower():
            return None
        said = f"/{named[1]}{said[named.end() :]}"
    return said
