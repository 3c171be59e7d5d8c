"""The state machine of the tests, at full size: the store beside a model in memory."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.store.test_state_machine import run


def main() -> None:
    """The command line. A history in which the two disagree ends it with an error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.histories", description=__doc__)
    parser.add_argument("--examples", type=int, default=5_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="clew-histories-") as directory:
        run(options.examples, Path(directory))
    print(f"{options.examples:,} random histories, and the store and the model always agreed.")


if __name__ == "__main__":
    main()
