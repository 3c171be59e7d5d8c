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
from clew.wiring.house import (
    House,
    open_catalogue,
    open_cron_file,
    open_memory,
    open_personalities,
)
from clew.wiring.rules import model_names, reset_rules, routing_rules, terminal_judge
from clew.wiring.stores import (
    StoreFacts,
    back_up_store,
    copy_source,
    copy_store,
    copy_target,
    describe_store,
    examine_store,
    import_file,
    mend_store,
    open_configured_store,
    restore_store,
    retention_policy,
)

if TYPE_CHECKING:
    from clew.store.diagnosis import Diagnosis, Finding, Repaired

__all__ = [
    "Diagnosis",
    "Errands",
    "Finding",
    "Gateway",
    "House",
    "Repaired",
    "StoreFacts",
    "back_up_store",
    "copy_source",
    "copy_store",
    "copy_target",
    "describe_store",
    "examine_store",
    "import_file",
    "list_hooks",
    "local",
    "local_files",
    "mend_store",
    "model_names",
    "open_catalogue",
    "open_channels",
    "open_configured_store",
    "open_cron_file",
    "open_gateway",
    "open_memory",
    "open_personalities",
    "reset_rules",
    "restore_store",
    "retention_policy",
    "routing_rules",
    "run_errands",
    "terminal_judge",
]
