"""Callers of a gateway who ask for one thing again and again, until the process is ended.

    python -m benchmarks.processes.callers URL TOKEN PATH COUNT

`{n}` in the path is another number each time. Prints a line when all have begun, and in the end how
many calls were answered.
"""

from __future__ import annotations

import http.client
import itertools
import os
import sys
import threading
from contextlib import closing

OK = (200, 429, 503)
PATIENCE = 120.0


def ask(place: str, token: str, path: str, numbers: itertools.count[int]) -> None:
    """Ask for ever, over one connection; what is not an answer ends the process."""
    with closing(http.client.HTTPConnection(place, timeout=PATIENCE)) as connection:
        headers = {"Authorization": f"Bearer {token}"}
        for number in numbers:
            connection.request("GET", path.replace("{n}", str(number)), headers=headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status not in OK:
                print(f"{path}: {answer.status}", file=sys.stderr)
                os._exit(1)


def main() -> None:
    """Until standard input ends."""
    url, token, path, count = sys.argv[1:]
    numbers = itertools.count(1)
    arguments = (url.removeprefix("http://"), token, path, numbers)
    for _ in range(int(count)):
        threading.Thread(target=ask, args=arguments, daemon=True).start()
    print("begun", flush=True)
    sys.stdin.read()
    print(next(numbers) - 1, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
