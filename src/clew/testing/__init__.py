"""For tests of stores and channels, clew's own and others': `contract`, `machine`, `channels`.

Also a model that follows a script (`scripted`), conversations from a seed (`corpus`) and a clock
that a test moves (`clock`). Nothing here knows a particular store; `clew.testing.contract` says how
to run the suite over one.
"""

from __future__ import annotations

import sys

# Before the first import of these modules, so that a failed assert shows its values. Only where
# pytest runs: `clew demo` needs the corpus, and a user has no pytest.
if "pytest" in sys.modules:
    sys.modules["pytest"].register_assert_rewrite("clew.testing.contract", "clew.testing.machine")

from clew.testing.clock import FakeClock

__all__ = ["FakeClock"]
