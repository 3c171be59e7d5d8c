"""The only place that builds things: what the configuration says becomes living parts.

Everything above takes what is built here through the ports; nothing below knows how it was chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.wiring.errands import Errands, run_errands
from clew.wiring.gateway import (
    Gateway,
    list_hooks,
    local,
    local_files,
    open_channels,
    open_gateway,
)
from clew.wiring.house import House
from clew.wiring.models import are_weights_sound, count_download, open_catalogue, try_model
from clew.wiring.stores import (
    StoreFacts,
    back_up_store,
    copy_source,
    copy_store,
    copy_target,
    describe_store,
    examine_store,
    fill_demo_store,
    import_file,
    mend_store,
    open_configured_store,
    restore_store,
    retention_policy,
)
from clew.wiring.terminal import LocalTerminal, open_terminal

if TYPE_CHECKING:
    from clew.agent.models.catalogue import Catalogue
    from clew.store.diagnosis import Diagnosis, Finding, Repaired

__all__ = [
    "Catalogue",
    "Diagnosis",
    "Errands",
    "Finding",
    "Gateway",
    "House",
    "LocalTerminal",
    "Repaired",
    "StoreFacts",
    "are_weights_sound",
    "back_up_store",
    "copy_source",
    "copy_store",
    "copy_target",
    "count_download",
    "describe_store",
    "examine_store",
    "fill_demo_store",
    "import_file",
    "list_hooks",
    "local",
    "local_files",
    "mend_store",
    "open_catalogue",
    "open_channels",
    "open_configured_store",
    "open_gateway",
    "open_terminal",
    "restore_store",
    "retention_policy",
    "run_errands",
    "try_model",
]
