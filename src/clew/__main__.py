"""The `clew` command and `python -m clew`: the way into the command line, and nothing else.

Loading that takes a moment. Ctrl+C within it ends the program as quietly as later; how a command
ends that has begun is `cli.report`'s business.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run the command line to its end, and exit."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a program in the background may ignore it
        signal.signal(signal.SIGINT, _leave)
    from clew.cli import run  # noqa: PLC0415  # Ctrl+C is heeded from here on

    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, before)
    run()


def _leave(_number: int, _frame: FrameType | None) -> None:
    """At once: nothing has been done yet, and an import could lose an exception."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
