"""A terminal's seat at a gateway: the same seat, store and runtime, as far as a terminal uses them.

Everything goes through the client; nothing is kept here but what was seen last. A terminal that has
the runtime in its own process knows nothing of this.
"""

from __future__ import annotations

from clew.client.remote.line import Line, open_line
from clew.client.remote.ordering import run_there
from clew.client.remote.runtime import RemoteRuntime
from clew.client.remote.seat import RemoteSeat
from clew.client.remote.shelves import RemoteModels, RemotePersonalities, load_shelves

__all__ = [
    "Line",
    "RemoteModels",
    "RemotePersonalities",
    "RemoteRuntime",
    "RemoteSeat",
    "load_shelves",
    "open_line",
    "run_there",
]
