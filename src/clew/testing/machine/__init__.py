"""A store and its model side by side, over random histories: every answer must be the same.

    run_machine(open_empty, examples=200)

`open_empty(clock)` opens a store that has nothing in it, another one every time. `check(store)` is
for what a particular store promises beyond the ports (an index in step, say); it is awaited at the
end of each history, before the store is closed.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from clew.testing.machine.rules import (
    KEYS,
    WORDS,
    Check,
    OpenEmpty,
    ReadRules,
    SessionRules,
    WriteRules,
)


class StoreMachine(WriteRules, SessionRules, ReadRules):
    """One history: any calls of a store, in any order."""

    def teardown(self) -> None:
        """Compare everything once more, and run the check of the store itself."""
        try:
            self.compare_all(self.ids)
            for viewer in ("owner", "tg:7"):
                for word in WORDS:
                    self.search([word], viewer)
                for trashed in (False, True):
                    self.list_all(viewer, None, None, trashed, 2)
            for key in KEYS:
                self.follow(key)
            if self.check is not None:
                self.run(self.check(self.store))
        finally:
            self.close()


def run_machine(
    open_empty: OpenEmpty, *, examples: int, steps: int = 50, check: Check | None = None
) -> None:
    """Compare over that many histories; raises with the shortest one that differs."""
    run_state_machine_as_test(
        lambda: StoreMachine(open_empty, check),  # type: ignore[arg-type]  # any factory will do
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
