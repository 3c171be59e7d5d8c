"""Builds stores, agents, runtimes, gateways and clients from the configuration.

No other room builds them. `House` has the parts, `open_house` opens the store too; `in_process`
makes clients of it, `gateway` a gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.wiring.checks import list_warnings
from clew.wiring.gateway import Errands, Gateway, open_gateway, run_errands
from clew.wiring.house import House
from clew.wiring.in_process import LocalTerminal, local, local_files, open_terminal
from clew.wiring.models import are_weights_sound, count_download, open_catalogue, try_model
from clew.wiring.stores import (
    back_up_store,
    copy_source,
    copy_store,
    copy_target,
    examine_store,
    fill_demo_store,
    import_file,
    open_configured_store,
    repair_store,
    restore_store,
)

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
    "are_weights_sound",
    "back_up_store",
    "copy_source",
    "copy_store",
    "copy_target",
    "count_download",
    "examine_store",
    "fill_demo_store",
    "import_file",
    "list_warnings",
    "local",
    "local_files",
    "open_catalogue",
    "open_configured_store",
    "open_gateway",
    "open_terminal",
    "repair_store",
    "restore_store",
    "run_errands",
    "try_model",
]
