"""How long a test waits for something that has to come.

It is no measure of anything: on a machine with much else to do, what takes a second takes a minute.
Where the time itself is what is tested, a test has a limit of its own. pytest's own time limit
(pyproject.toml) is longer than this, so that a test can say what it has waited for.
"""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 240.0
"""Seconds after which a test gives up."""
