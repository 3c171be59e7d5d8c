"""What `clew list` costs from nothing to nothing, beside the imports that it can't do without."""

from __future__ import annotations

import asyncio
import compileall
import os
import statistics
import subprocess
import sys
from pathlib import Path

import clew
from benchmarks.corpora import Setting
from benchmarks.timing import Finding, seconds

BAR = 2.0
ROUNDS = 9

# What the installed command does, without the detour of `-m`.
_LIST = [sys.executable, "-c", "from clew.cli import main; main()", "list"]
_FLOOR = [sys.executable, "-c", "import click, asyncio, apsw"]


async def startup(setting: Setting) -> list[Finding]:
    """CPU time of a whole process."""
    kept = await setting.corpus("thousand" if setting.quick else "million")
    environment = {
        **os.environ,
        "CLEW_HOME": str(setting.folder()),
        "CLEW_STORE": f"sqlite://{kept.path}",
    }
    compileall.compile_dir(str(Path(clew.__file__).parent), quiet=2)
    floor: list[float] = []
    ours: list[float] = []
    for _ in range(ROUNDS):
        floor.append(await asyncio.to_thread(cpu, _FLOOR, environment))
        ours.append(await asyncio.to_thread(cpu, _LIST, environment))
    ratio = statistics.median(ours) / statistics.median(floor)
    return [
        Finding(
            topic="start-up",
            what=f"clew list, {'1,000' if setting.quick else '50,000'} sessions",
            floor=f"imports {seconds(statistics.median(floor))}",
            clew=seconds(statistics.median(ours)),
            compared=f"{ratio:.2f}x",
            bar=f"{BAR}x",
            ok=ratio <= BAR,
        )
    ]


def cpu(command: list[str], environment: dict[str, str]) -> float:
    """Seconds of CPU that a command takes."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
