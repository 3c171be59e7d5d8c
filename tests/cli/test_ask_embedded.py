"""`clew ask` with the embedded model, which can't read much."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from tests.cli.conftest import Home
from tests.forks import CLEW
from tests.patience import PATIENCE
from tests.weights import have_weights


def test_who_asks_too_much_of_the_embedded_model_is_told_on_stderr(home: Home) -> None:
    have_weights()
    environment = os.environ | {"CLEW_HOME": str(home.path), "CLEW_MODEL": "local/smollm2-135m"}
    with tempfile.TemporaryFile() as question:
        question.write(b"The sky is blue. " * 180_000)
        question.seek(0)
        asking = subprocess.Popen(
            [sys.executable, "-c", CLEW, "ask", "Is it?"],
            stdin=question,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
    try:
        assert asking.stderr is not None
        told = next(line for line in asking.stderr if "too long" in line)
    finally:
        asking.kill()  # what it answers is nothing to wait for
        said, _ = asking.communicate(timeout=PATIENCE)
    assert "too long for the embedded model: about 3,05" in told
    assert "too long" not in said
