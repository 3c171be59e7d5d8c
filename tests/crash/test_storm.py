"""A gateway that is killed again and again while messages pour in: one turn each, nothing lost.

The whole thing is `benchmarks.storm`; `make proof` runs it with 200 messages and twenty kills. At
every commit on the way of one message, it is `benchmarks.turns arriving`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.sizes import pick

ROOT = Path(__file__).parents[2]
MESSAGES = pick(24, 40)
KILLS = pick(2, 4)


def test_every_message_has_one_turn_however_often_the_gateway_is_killed() -> None:
    # A process of its own: it forks, and pytest may have threads.
    storm = subprocess.run(
        [
            sys.executable, "-m", "benchmarks.storm",
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


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_message_that_begins_a_session_does_so_once_wherever_it_is_killed(when: str) -> None:
    walk = subprocess.run(
        [sys.executable, "-m", "benchmarks.turns", "arriving", "--when", when],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert walk.returncode == 0, walk.stdout + walk.stderr
    points = [line.split() for line in walk.stdout.splitlines() if line.startswith(when)]
    assert [int(number) for _, number, _ in points] == list(range(1, len(points) + 1))
    # What happens side by side is committed in any order, or together.
    written = {table for _, _, tables in points for table in tables.split("+")}
    assert written >= {"inbox", "sessions", "routes", "turns", "messages", "outbox"}
    assert len(points) >= 10
