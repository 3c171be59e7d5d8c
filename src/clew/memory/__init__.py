"""The two memory files on disk: scopes, atomic writes, history.

It implements `ports.Memory`. It knows neither sessions nor models; its callers decide what a person
may do with the files.
"""

from __future__ import annotations

from clew.memory.markdown import MarkdownMemory

__all__ = ["MarkdownMemory"]
