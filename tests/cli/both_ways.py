"""One clew in two ways: a command in process, and the same command by `--url` at a gateway.

The home is made once and then copied, so that ids and times are the same in both. Commands that
run at the gateway have an empty home of their own: what they print can only come from there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import Result

from tests.cli.conftest import Home
from tests.cli.gateways import GatewayProcess, run_gateway

WAYS = ("in_process", "at_a_gateway")

UTC = {"CLEW_SESSION_TIMEZONE": "UTC"}


class BothWays:
    """Runs the same command line in process and at a gateway."""

    def __init__(self, here: Home, gateway: GatewayProcess, caller: Home) -> None:
        self.here = here
        self.gateway = gateway
        self.caller = caller

    def run(self, *args: str, way: str, env: dict[str, str] | None = None) -> Result:
        """Run a command in one of the `WAYS`."""
        environment = UTC | (env or {})
        if way == "in_process":
            return self.here.clew(*args, env=environment)
        token = f"file:{self.gateway.token_file}"
        return self.caller.clew(*args, "--url", self.gateway.url, "--token", token, env=environment)

    def same(
        self, *args: str, masks: tuple[str, ...] = (), env: dict[str, str] | None = None
    ) -> Result:
        """Run it in both ways: same answer, same complaints, same exit code.

        `masks` are patterns of lines that may differ: those that name the place, or who did it.
        """
        here, there = (self.run(*args, way=way, env=env) for way in WAYS)
        told = f"in process:\n{here.output}\nat a gateway:\n{there.output}"
        assert here.exit_code == there.exit_code, told
        assert _masked(here.stdout, masks) == _masked(there.stdout, masks), told
        assert _masked(here.stderr, masks) == _masked(there.stderr, masks), told
        return there


def _masked(text: str, masks: tuple[str, ...]) -> str:
    for mask in masks:
        text = re.sub(mask, "…", text, flags=re.MULTILINE)
    return text


@contextmanager
def both_ways(home: Home, scratch: Path) -> Iterator[BothWays]:
    """The home as it is, and a copy of it behind a gateway; make its sessions before."""
    there = Home(scratch / "there")
    shutil.copytree(home.path, there.path)
    with run_gateway(there) as gateway:
        yield BothWays(home, gateway, Home(scratch / "caller"))
