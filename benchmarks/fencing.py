"""The fencing of the tests, at full size: holders that are paused, taken over and woken."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import closing

from tests.postgres.server import Server
from tests.postgres.test_fencing import run_rounds
from tests.postgres.test_state_machine import check_database


class _Server(Server):
    def close(self) -> None:
        self.remove()


def main() -> None:
    """The command line. A stale write ends it with an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fencing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000)
    options = parser.parse_args()
    with closing(_Server()) as server:
        url = server.url(server.create_database())
        asyncio.run(asyncio.wait_for(run_rounds(url, options.rounds), 1.0 * options.rounds))
        check_database(url)
    print(f"{options.rounds:,} paused holders were taken over, and none wrote afterwards.")


if __name__ == "__main__":
    main()
