"""Every sample; an agent with two forms has two."""

from __future__ import annotations

from tests.transfer.samples.claude_code import CLAUDE_CODE
from tests.transfer.samples.codex import CODEX
from tests.transfer.samples.databases import (
    AGSH,
    GOOSE,
    HERMES,
    LLM,
    LLM_NEW,
    MEKA,
    OPENCODE,
    OPENCODE_FILES,
)
from tests.transfer.samples.documents import AIDER, CHATGPT, CHATGPT_ZIP, CLAUDE_AI, OPEN_WEBUI
from tests.transfer.samples.pi import CLAWDBOT, OH_MY_PI, OPENCLAW, PI
from tests.transfer.samples.talk import Sample

SAMPLES: tuple[Sample, ...] = (
    CLAUDE_CODE,
    CODEX,
    PI,
    OH_MY_PI,
    CLAWDBOT,
    OPENCLAW,
    HERMES,
    AGSH,
    MEKA,
    OPENCODE,
    OPENCODE_FILES,
    GOOSE,
    AIDER,
    LLM,
    LLM_NEW,
    CHATGPT,
    CHATGPT_ZIP,
    CLAUDE_AI,
    OPEN_WEBUI,
)
