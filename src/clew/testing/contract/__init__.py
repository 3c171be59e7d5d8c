"""The contract of a session store as a test suite, written from the docstrings of `clew.ports`.

To run it over a store of your own, install `pytest` and `pytest-asyncio` and tell how to open it:

    import pytest
    from clew.testing.contract import StoreContract

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            async def open_store(clock):
                return await MyStore.open(tmp_path / "data", clock=clock)

            return open_store

`open_store(clock)` is called more than once in a test: every call opens the same data, empty at
the start of the test, as another process would. Time is `clock()`, milliseconds UTC. To test one
port alone, inherit from its class (`LogContract`, `SearchContract`, …) instead.

`clew.testing.machine` compares a store with a model of it over thousands of random histories.
"""

from __future__ import annotations

from clew.testing.contract.access import PairingsContract, TokensContract
from clew.testing.contract.delivery import InboxContract, OutboxContract
from clew.testing.contract.foreign import ErasingContract, ForeignContract, NoteMessagesContract
from clew.testing.contract.forks import ForksContract
from clew.testing.contract.imports import ImportsContract
from clew.testing.contract.leases import AttachmentsContract, LeasesContract, ProcessesContract
from clew.testing.contract.listing import ListingContract, OverviewContract
from clew.testing.contract.log import LogContract
from clew.testing.contract.marks import MarksContract
from clew.testing.contract.notes import NotesContract
from clew.testing.contract.search import SearchContract
from clew.testing.contract.sessions import SessionsContract
from clew.testing.contract.store import HandlesContract
from clew.testing.contract.trash import RetentionContract, TrashContract
from clew.testing.contract.turns import TurnsContract
from clew.testing.contract.usage import UsageContract
from clew.testing.contract.values import LimitsContract, TextContract, TypesContract
from clew.testing.contract.vectors import VectorsContract

__all__ = [
    "AttachmentsContract",
    "ErasingContract",
    "ForeignContract",
    "ForksContract",
    "HandlesContract",
    "ImportsContract",
    "InboxContract",
    "LeasesContract",
    "LimitsContract",
    "ListingContract",
    "LogContract",
    "MarksContract",
    "NoteMessagesContract",
    "NotesContract",
    "OutboxContract",
    "OverviewContract",
    "PairingsContract",
    "ProcessesContract",
    "RetentionContract",
    "SearchContract",
    "SessionsContract",
    "StoreContract",
    "TextContract",
    "TokensContract",
    "TrashContract",
    "TurnsContract",
    "TypesContract",
    "UsageContract",
    "VectorsContract",
]


class StoreContract(
    SessionsContract,
    ListingContract,
    MarksContract,
    OverviewContract,
    ForksContract,
    LogContract,
    TurnsContract,
    ForeignContract,
    ErasingContract,
    NoteMessagesContract,
    UsageContract,
    ProcessesContract,
    LeasesContract,
    AttachmentsContract,
    SearchContract,
    TrashContract,
    RetentionContract,
    NotesContract,
    InboxContract,
    OutboxContract,
    TokensContract,
    PairingsContract,
    ImportsContract,
    VectorsContract,
    TextContract,
    TypesContract,
    LimitsContract,
    HandlesContract,
):
    """Everything that a store promises."""
