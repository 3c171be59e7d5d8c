"""Two gateways on one PostgreSQL, killed while messages pour in: one turn each, in order.

The whole thing is `benchmarks.storm`; `make proof` runs it with 200 messages and twenty kills, with
one gateway and with two.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE
from tests.sizes import pick

ROOT = Path(__file__).parents[2]
MESSAGES = pick(24, 40)
KILLS = pick(2, 4)


def test_every_message_has_one_turn_however_often_one_of_two_gateways_is_killed(url: str) -> None:
    # A process of its own: it forks, and pytest may have threads.
    storm = subprocess.run(
        [
            sys.executable, "-m", "benchmarks.storm", "--store", url, "--gateways", "2",
            "--messages", str(MESSAGES), "--conversations", "8", "--kills", str(KILLS),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )  # fmt: skip

    assert storm.returncode == 0, storm.stdout + storm.stderr
    assert f"{MESSAGES} messages" in storm.stdout
    assert f"{KILLS} kills" in storm.stdout
