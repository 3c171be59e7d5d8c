"""Two gateways on one PostgreSQL, killed while messages pour in: one turn each, in order.

The whole thing is `benchmarks.storm`; `make proof` runs it with 200 messages and twenty kills, with
one gateway and with two.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.mark.serial
def test_every_message_has_one_turn_however_often_one_of_two_gateways_is_killed(url: str) -> None:
    # A process of its own: it forks, and pytest may have threads.
    storm = subprocess.run(
        [
            sys.executable, "-m", "benchmarks.storm", "--store", url, "--gateways", "2",
            "--messages", "40", "--conversations", "8", "--kills", "4",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )  # fmt: skip

    assert storm.returncode == 0, storm.stdout + storm.stderr
    assert "40 messages" in storm.stdout
    assert "4 kills" in storm.stdout
