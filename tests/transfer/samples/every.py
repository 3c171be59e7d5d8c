"""Every sample, by the name of its agent."""

from __future__ import annotations

from tests.transfer.samples.claude_code import CLAUDE_CODE
from tests.transfer.samples.codex import CODEX
from tests.transfer.samples.talk import Sample

SAMPLES: tuple[Sample, ...] = (CLAUDE_CODE, CODEX)
BY_NAME = {each.agent: each for each in SAMPLES}
