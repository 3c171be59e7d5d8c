from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent


def test_the_reference_pages_say_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/docs.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
