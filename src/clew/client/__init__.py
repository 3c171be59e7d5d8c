"""The SDK: the public operations as methods of `Client`, in process or over HTTP.

One module per large noun (`sessions`, `chat`, `seats`), the small ones in `nouns`; `http` and
`live` are the way to a gateway, `api.local` is the one in process. What an operation does is in
`api.handlers`.
"""

from __future__ import annotations

from clew.client.client import Client

__all__ = ["Client"]
