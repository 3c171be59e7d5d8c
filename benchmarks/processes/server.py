"""`clew serve` as a process of its own, with a scripted model, for benchmarks that call it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec

from clew.core.session import OWNER

PATIENCE = 120.0
SERVE = ("-m", "clew", "serve", "--port", "0", "--json")
ANSWER = "The scripted model answers with a sentence or two, as a short answer has them. "


class Gateway(msgspec.Struct, frozen=True):
    """A gateway that runs."""

    url: str
    token: str
    pid: int
    release: Path
    """The file that ends the wait of turns that are held up."""

    def make_token(self, scope: str, person: str = OWNER) -> str:
        """The secret of a new token."""
        body = {"name": f"{scope} of {person}", "scopes": [scope], "person": person}
        headers = {"Authorization": f"Bearer {self.token}"}
        made = httpx.post(f"{self.url}/v1/tokens", json=body, headers=headers, timeout=PATIENCE)
        made.raise_for_status()
        return str(made.json()["secret"])

    def memory(self) -> int:
        """Bytes that it has in memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Descriptors that it has open."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def cpu(self) -> float:
        """Seconds of CPU that it has had, all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def open_gateway(
    home: Path, store: Path, *, log: Path | None = None, descriptors: int | None = None
) -> Iterator[Gateway]:
    """`clew serve` with a scripted model, over a store.

    What it logs goes into a file, or away. `descriptors`: so many at most.
    """
    release = home / "release"
    _configure(home, release)
    environment = {**os.environ, "CLEW_HOME": str(home), "CLEW_STORE": f"sqlite://{store}"}
    with _process(environment, log or Path(os.devnull), descriptors) as (process, told):
        yield Gateway(told["url"], told["token"], process.pid, release)


def _configure(home: Path, release: Path) -> None:
    held = {"when": "^held", "answers": [{"echo": "user", "hold": str(release)}]}
    answer = {"text": ANSWER, "echo": "user"}
    script = home / "script.json"
    script.write_text(json.dumps({"title": "Load", "answers": [answer], "rules": [held]}))
    (home / "config.toml").write_text(
        'model = "script/x"\n'
        '[providers.script]\nkind = "python"\nfactory = "clew.testing.scripted:open_model"\n'
        f"base_url = {json.dumps(str(script))}\n"
    )


@contextmanager
def _process(
    environment: dict[str, str], log: Path, descriptors: int | None
) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    limit = "" if descriptors is None else f"ulimit -n {descriptors} && "
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["sh", "-c", f'{limit}exec "$0" "$@"', sys.executable, *SERVE],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        line = process.stdout.readline() if ready else b""
        if not line:
            raise SystemExit("The gateway did not start.")
        told = json.loads(line)
        told["token"] = Path(told["token_file"]).read_text("ascii").strip()
        yield process, told
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
