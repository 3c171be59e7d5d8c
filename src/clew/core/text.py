"""Text as clew stores, compares and shows it, and values as JSON text.

Functions over strings that accept every Python `str`. They know no database, terminal or language:
the search language is in `core.search.query`, names of sessions are in `core.names`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

import msgspec

from clew.errors import InvalidInput

# --- at the boundary of a store ---------------------------------------------------------------
ESCAPE: Final = "\ufff9"
"""What `encode_text` puts before a character that it can't store.

The interlinear annotation anchor: Unicode keeps it for a program's own use, JSON and both databases
hold it as it is, and full-text search takes it for a gap between words.
"""

_UNSTORABLE: Final = re.compile(f"[\0{ESCAPE}\ud800-\udfff]")
_ESCAPED: Final = re.compile(f"{ESCAPE}(?:[ {ESCAPE}]|[(-/][ -/]{{2}})")

T = TypeVar("T")

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def encode_text(text: str) -> str:
    """Return `text` in a form that a database can hold; ordinary text comes back as it is.

    `ESCAPE` doubled stands for itself, followed by a space for NUL, followed by three characters
    for the lone surrogate U+Dxyz. Those three are the hexadecimal digits x, y and z counted from
    the space (`0` is a space, `f` is `/`): no letters, so the words on both sides stay words for
    the full-text index.
    """
    if _is_storable(text):
        return text
    return _UNSTORABLE.sub(lambda match: _escape(match[0]), text)


def decode_text(text: str) -> str:
    """Undo `encode_text`. Accepts any string: what `encode_text` never wrote stays as it is."""
    if ESCAPE not in text:
        return text
    return _ESCAPED.sub(lambda match: _unescape(match[0]), text)


def _is_storable(text: str) -> bool:
    if "\0" in text or ESCAPE in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()  # the fastest test for surrogates that Python has
    except UnicodeEncodeError:
        return False
    return True


def _escape(character: str) -> str:
    if character == ESCAPE:
        return ESCAPE * 2
    code = ord(character)
    if code == 0:
        return ESCAPE + " "
    return ESCAPE + "".join(chr(0x20 + (code >> shift & 0xF)) for shift in (8, 4, 0))


def _unescape(escaped: str) -> str:
    match escaped[1:]:
        case "\ufff9":
            return ESCAPE
        case " ":
            return "\0"
        case digits:
            x, y, z = (ord(digit) - 0x20 for digit in digits)
            return chr(0xD000 | x << 8 | y << 4 | z)


# --- comparing --------------------------------------------------------------------------------

# The marks of Latin, Greek and Cyrillic. Those of other scripts are letters to their readers:
# が is not か, and a Thai word without its vowel signs is another word.
_ACCENTS: Final = re.compile("[\u0300-\u036f\u0483-\u0487\u1ab0-\u1aff\u1dc0-\u1dff]+")
_MARKS: Final = re.compile(r"([^\w\s]{64})[^\w\s]+")


def fold(text: str) -> str:
    """Return `text` in the form used for comparing: without width, case and European diacritics."""
    if text.isascii():
        return text.lower()
    # Normalising sorts each run of marks in quadratic time, so the length of a run is limited.
    text = unicodedata.normalize("NFKC", _MARKS.sub(r"\1", text)).casefold()
    text = _ACCENTS.sub("", unicodedata.normalize("NFD", text))
    return unicodedata.normalize("NFKC", text)


# --- showing ----------------------------------------------------------------------------------
_INVISIBLE: Final = (
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
_JOINABLE: Final = rf"[^\0-\x9f\u200c\u200d\u2028\u2029\ud800-\udfff{_INVISIBLE}]"
_UNPRINTABLE: Final = re.compile(
    rf"""
      (?: \x1b\[ | \x9b ) [0-?]* [\ -/]* [@-~]?    # CSI
      # OSC, DCS, SOS, PM and APC go to their end, or to that of the line; in 8 bits only to their
      # end, for a \x9e is more often a ž in the wrong code
    | \x1b[\]PX^_] [^\x07\x1b\x9c\r\n]* (?: \x07 | \x1b\\ | \x9c )?
    | [\x90\x98\x9d-\x9f] [^\x07\x1b\x90-\x9f\r\n]*+ (?: \x07 | \x1b\\ | \x9c )
    | \x1b [\ -/]* [0-~]?                          # other escapes
    | (?P<newline> \r\n? | [\n\x0b\x0c\x85\u2028\u2029] )
    | (?P<surrogate> [\ud800-\udfff] )
    | [\0-\x08\x0e-\x1f\x7f-\x9f{_INVISIBLE}]
    | (?<! {_JOINABLE} ) [\u200c\u200d] | [\u200c\u200d] (?! {_JOINABLE} )
    """,
    re.VERBOSE,
)


_REVEALED: Final = re.compile(
    rf"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{_INVISIBLE}]"
    rf"|(?<!{_JOINABLE})[\u200c\u200d]|[\u200c\u200d](?!{_JOINABLE})"
)


def reveal_controls(text: str) -> str:
    """Return `text` with escapes, such as `\\x85`, for what `strip_controls` would change.

    Line feeds and tabs stay. For texts that somebody says yes or no to.
    """
    return _REVEALED.sub(lambda match: repr(match[0])[1:-1], text)


def strip_controls(text: str, *, keep_newlines: bool = True) -> str:
    """Return `text` without characters that could control a terminal or deceive a reader.

    Escape sequences go whole, then control, bidi and zero-width characters. Tabs stay; every kind
    of newline becomes a line feed, or a space without `keep_newlines`. Joiners stay between
    characters beyond ASCII, since Persian, Indic scripts and emoji are written with them. A lone
    surrogate becomes U+FFFD.
    """
    newline = "\n" if keep_newlines else " "
    # Most texts: plain lines.
    if text.isascii():
        if text.isprintable():
            return text
        if text.replace("\n", "").replace("\t", "").isprintable():
            return text if keep_newlines else text.replace("\n", newline)

    def replace(match: re.Match[str]) -> str:
        match match.lastgroup:
            case "newline":
                return newline
            case "surrogate":
                return "\ufffd"
            case _:
                return ""

    return _UNPRINTABLE.sub(replace, text)


def columns(text: str) -> int:
    """Count the terminal cells of one line of printable text."""
    if text.isascii():
        return len(text)
    width = 0
    for _, cells in _clusters(text):
        width += cells
    return width


def is_yes(typed: str) -> bool:
    """Whether a line that a person typed says yes to a question; anything else is a no."""
    return typed.strip().lower() in ("y", "yes")


def cut(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, with `…` where something was left out."""
    if text.isascii() and len(text) <= width:
        return text
    if width <= 0:
        return ""
    if text.isascii() and text.isprintable():  # most texts: each character is a column
        return text[: width - 1].rstrip() + "…"
    used = 0
    fitting = 0
    for end, cells in _clusters(text):
        used += cells
        if used > width:
            return text[:fitting].rstrip() + "…"
        if used < width:
            fitting = end
    return text


def pad(text: str, width: int, align: Literal["left", "right", "center"] = "left") -> str:
    """Fill `text` with spaces up to `width` columns; a wider one stays as it is."""
    gap = max(0, width - columns(text))
    before = {"left": 0, "right": gap, "center": gap // 2}[align]
    return " " * before + text + " " * (gap - before)


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """Yield the end and the columns of each group of characters that a terminal draws as one."""
    cells = 0
    joined = False
    for index, character in enumerate(text):
        width = _cell_width(character)
        is_tone = "\U0001f3fb" <= character <= "\U0001f3ff" and cells == 2
        if index and (joined or width == 0 or is_tone):
            if character == "\ufe0f" and text[index - 1] > "\x7f" and cells:  # wants the emoji form
                cells = 2
        else:
            if index:
                yield index, cells
            cells = width
        joined = character == "\u200d"
    if text:
        yield len(text), cells


@lru_cache(maxsize=4096)
def _cell_width(character: str) -> int:
    if "\u1160" <= character <= "\u11ff":  # the vowel and the end of a Hangul syllable
        return 0
    if unicodedata.category(character) in ("Mn", "Me", "Cf", "Cc"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def to_json(value: object) -> str:
    """The value as JSON text."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        text = ESCAPE
    except (TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"A value that is not JSON: {error}. Nothing was changed.") from error
    if ESCAPE in text:
        text = msgspec.json.encode(_map(msgspec.to_builtins(value), encode_text)).decode()
    return text


def from_json(text: str, kind: type[T]) -> T:
    """Read a value that `to_json` wrote."""
    if ESCAPE in text:
        return msgspec.convert(_map(msgspec.json.decode(text), decode_text), kind)
    return msgspec.json.decode(text, type=kind)


def to_wire(value: object) -> bytes:
    """Any value as JSON that every parser accepts: lone surrogates become U+FFFD.

    Many parsers refuse JSON in which they are written as escapes.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json  # noqa: PLC0415  # hardly ever needed, and every command loads this

        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
        return _SURROGATES.sub("\ufffd", text).encode()


def _map(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_map(item, change) for item in value]
    if isinstance(value, dict):
        return {_map(key, change): _map(item, change) for key, item in value.items()}
    return value
