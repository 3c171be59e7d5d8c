"""The public operations as calls, in process or over HTTP; `Client` is the same object for both.

`calls` does what the table of operations names, over the runtime; the client knows the table and a
way there. What is built, and from what, is decided above, in `wiring`.
"""

from __future__ import annotations

from clew.client.client import Client

__all__ = ["Client"]
