"""Sessions as files: written for people (Markdown, HTML) or to be read back (JSON lines).

`exporter` writes files, `importer` reads them; `jsonl` is the format that loses nothing, `thread`
the messages as people read them. `resume_file` is `--resume FILE`, `message_html` renders messages
for a web page. Everything here uses the ports, so it works with any store.
"""

from __future__ import annotations

from clew.transfer.exporter import Format, export_session, guess_format, write_file
from clew.transfer.importer import import_transcript

__all__ = [
    "Format",
    "export_session",
    "guess_format",
    "import_transcript",
    "write_file",
]
