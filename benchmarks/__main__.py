"""Measure clew against bare SQLite and bare psycopg, and say whether the bars are held.

    python -m benchmarks                 everything, at full size
    python -m benchmarks append search   only these topics
    python -m benchmarks --quick         small stores; bars on large ones are left out

Ends with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import apsw
import msgspec

from benchmarks import (
    api_calls,
    appending,
    dashboard,
    dear_calls,
    disk,
    importing,
    load,
    page_turns,
    picker,
    postgres,
    reading,
    screen,
    searching,
    startup,
    talking,
    transcript,
    update,
    writers,
)
from benchmarks.corpora import Setting
from benchmarks.timing import Finding, one_core, table

TOPICS: dict[str, Callable[[Setting], Awaitable[list[Finding]]]] = {
    "append": appending.appends,
    "newest": reading.newest,
    "list": reading.lists,
    "resolve": reading.resolving,
    "fork": reading.forks,
    "search": searching.searches,
    "disk": disk.disk,
    "update": update.update,
    "worst": appending.worst_case,
    "writers": writers.many_writers,
    "startup": startup.startup,
    "talking": talking.talking,
    "picking": picker.picking,
    "screen": screen.screen,
    "transcript": transcript.transcripts,
    "postgres": postgres.postgres,
    "load": load.load,
    "dear": dear_calls.dear_calls,
    "api": api_calls.api_calls,
    "dashboard": dashboard.lists,
    "page": page_turns.turns,
    "import": importing.importing,
}


ONE_CORE = ("append", "newest", "list", "resolve", "fork")
"""Microseconds against a floor. What waking a thread on another core costs differs by a factor of
five on one and the same machine, so these run on one core, floor and clew alike."""


async def run(
    topics: Sequence[str], *, cache: Path, quick: bool, spread: bool = False
) -> list[Finding]:
    """Measure the topics, one after the other."""
    findings: list[Finding] = []
    for topic in topics:
        print(f"measuring {topic} …", file=sys.stderr, flush=True)
        # Beside the cache, so that what is measured is on the same disk.
        scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=cache))
        try:
            setting = Setting(cache=cache, scratch=scratch, quick=quick)
            with one_core() if topic in ONE_CORE and not spread else nullcontext():
                findings += await TOPICS[topic](setting)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return findings


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("topics", nargs="*", metavar="topic", help=", ".join(TOPICS))
    parser.add_argument("--quick", action="store_true", help="small stores, few rounds")
    parser.add_argument("--spread", action="store_true", help="use all cores for every topic")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings there too")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "clew-bench")
    options = parser.parse_args()
    if unknown := set(options.topics) - set(TOPICS):
        parser.error(f"no such topic: {', '.join(sorted(unknown))}")
    cache: Path = options.cache.absolute()
    cache.mkdir(parents=True, exist_ok=True)
    topics = options.topics or tuple(TOPICS)
    findings = asyncio.run(run(topics, cache=cache, quick=options.quick, spread=options.spread))
    cores = "all cores" if options.spread else f"one core for {', '.join(ONE_CORE)}"
    print(f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, ", end="")
    print(f"CPU medians, {cores}\n")
    print(table(findings))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(findings)))
    missed = [finding for finding in findings if finding.ok is False]
    print(f"\n{len(missed)} of {sum(each.ok is not None for each in findings)} bars missed.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
