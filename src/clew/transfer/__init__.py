"""Sessions as files: written for people (Markdown, HTML) or to be read back (JSON lines).

`exporter` and `importer` are the two ways, `jsonl` is the format without loss, `thread` what people
read. `resume_file` is `--resume FILE`. `message_html` renders messages for a web page. Everything
here goes through the ports, so any store can be exported and imported into.
"""

from __future__ import annotations

from clew.transfer.exporter import FORMATS, Format, export_session, guess_format, write_file
from clew.transfer.importer import import_transcript

__all__ = [
    "FORMATS",
    "Format",
    "export_session",
    "guess_format",
    "import_transcript",
    "write_file",
]
