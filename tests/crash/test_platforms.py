"""A gateway that is killed while people write to it on real platforms, and its store goes away.

The whole thing is `benchmarks.platforms`; `make proof` runs it with 500 messages and fifty kills.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def test_each_message_on_a_platform_has_one_turn_and_no_reply_is_lost() -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "benchmarks.platforms",
            "--messages", "12", "--conversations", "4", "--kills", "2", "--away", "1",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 messages" in done.stdout
    assert "2 kills" in done.stdout
