"""The search language: what a person types, as FTS5 expressions.

A query is words (all must match), `"exact phrases"`, `-unwanted` ones and `beginnings*`. Any string
is a query. Two indexes answer it: `messages_fts` (`porter unicode61 remove_diacritics 2`, over the
text itself) and a companion (`porter ascii`, over `spaceless_tokens`) for messages in scripts that
are written without spaces. The store runs the queries and ranks the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

import msgspec

from clew.core.search.stems import protective_ending, stem, stunting_endings
from clew.core.text import encode_text, fold

MAX_INDEXED: Final = 65_536
"""Characters of a message that the companion index and snippets look at."""
MAX_QUERY: Final = 1_000
"""Characters of a query that are read; the rest is ignored."""
MAX_TERMS: Final = 32


class Term(msgspec.Struct, frozen=True):
    """One word or phrase of a query."""

    text: str
    phrase: bool = False
    prefix: bool = False
    negated: bool = False


class Query(msgspec.Struct, frozen=True):
    """A parsed query. All its positive terms must match, and none of its negated ones."""

    terms: tuple[Term, ...] = ()

    @property
    def positive(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if not term.negated)

    @property
    def negated(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.negated)

    @property
    def is_empty(self) -> bool:
        """Whether the query has no positive term, so that it finds nothing."""
        return not self.positive


# --- parsing ----------------------------------------------------------------------------------
_QUOTES: Final = str.maketrans(dict.fromkeys("“”„‟＂", '"'))  # noqa: RUF001 - phones type these
# One hyphen negates; `--resume` is a word that people search for.
_TERM: Final = re.compile(r'(?P<minus>-(?=[^\s-]))?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')


def parse(text: str, *, typing: bool = False) -> Query:
    """Read a query. With `typing`, the last word may be unfinished and counts as a beginning."""
    text = text[:MAX_QUERY].translate(_QUOTES)
    terms: list[Term] = []
    for match in _TERM.finditer(text):
        negated = match["minus"] is not None
        if match["word"] is None:
            term = Term(match["phrase"], phrase=True, negated=negated)
        else:
            word = match["word"].rstrip("*")
            # An unfinished exclusion would hide results that the finished one shows.
            growing = typing and not negated and match.end() == len(text)
            prefix = (growing or word != match["word"]) and _can_begin(word)
            term = Term(word, prefix=prefix, negated=negated)
        if _piece().search(fold(term.text)):
            terms.append(term)
            if len(terms) == MAX_TERMS:
                break
    return Query(tuple(terms))


def _can_begin(word: str) -> bool:
    """Whether the word is long enough to search for words that begin with it."""
    pieces = list(find_pieces(fold(word)))
    return bool(pieces) and (pieces[-1]["run"] is not None or len(pieces[-1][0]) >= 2)


# --- scripts without spaces -------------------------------------------------------------------

# Letters, marks and digits of Thai, Lao, Myanmar, Hangul, Khmer, Han, kana and Bopomofo …
SPACELESS: Final = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf\u1000-\u1049\u1050-\u109d"
    "\u1100-\u11ff\u1780-\u17d3\u17d7\u17dc\u17dd\u17e0-\u17e9\u2e80-\u2fd5\u3005-\u3007"
    "\u3021-\u302f\u3031-\u3035\u3038-\u303c\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c"
    "\ua9e0-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f\uac00-\ud7fb\uf900-\ufaff\U0001aff0-\U0001b16f"
    "\U00020000-\U0003ffff"
)
# … and characters that folding turns into them: squared, circled and half-width forms.
FOLDING: Final = "\u3036\u309b\u309c\u3190-\u319f\u3200-\u33ff\uff66-\uffdc\U0001f200-\U0001f265"

SPACELESS_GLOB: Final = f"*[{SPACELESS}{FOLDING}]*"
"""A SQLite GLOB that matches every content with `spaceless_tokens`, and little else."""

_WORD: Final = rf"(?:[^\W_{SPACELESS}]|[\ue000-\uf8ff])+"  # as unicode61 has it: L*, N* and Co


@cache
def _piece() -> re.Pattern[str]:
    """The pattern of words and runs. Compiled at first use: it takes milliseconds."""
    return re.compile(rf"(?P<run>[{SPACELESS}]+)|{_WORD}")


def find_pieces(text: str) -> Iterator[re.Match[str]]:
    """The words of a text, and its runs of spaceless characters (group `run`), in order."""
    return _piece().finditer(text)


def spaceless_tokens(content: str) -> str | None:
    """Return the tokens of a message for the companion index; None if it does not belong there.

    A run 日本語 becomes 日本 本語 語, so that each of its substrings is a phrase of bigrams or the
    beginning of one token. Other words are added unchanged, so that the companion index can answer
    a query for the whole message.
    """
    content = content[:MAX_INDEXED]
    if content.isascii():
        return None
    tokens: list[str] = []
    found = False
    for piece in find_pieces(fold(content)):
        if piece["run"] is None:
            tokens.append(piece[0])
        else:
            tokens += _grams(piece[0])
            found = True
    return " ".join(tokens) if found else None


def _grams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run))]


# --- FTS5 expressions -------------------------------------------------------------------------
def words_expression(query: Query) -> str | None:
    """Return the query for `messages_fts`, or None if there is nothing to match."""
    return _expression(query, _words_term)


def spaceless_expression(query: Query) -> str | None:
    """Return the query for the companion index, or None if there is nothing to match."""
    return _expression(query, _spaceless_term)


def _expression(query: Query, render: Callable[[Term], str]) -> str | None:
    if query.is_empty:
        return None
    wanted = " AND ".join(map(render, query.positive))
    if not query.negated:
        return wanted
    return f"({wanted}) NOT ({' OR '.join(map(render, query.negated))})"


def _words_term(term: Term) -> str:
    pieces = list(find_pieces(term.text)) if term.prefix else []
    if not pieces:
        return _quote(term.text)
    return _beginning(term.text[: pieces[-1].end()], fold(pieces[-1][0]))


def _spaceless_term(term: Term) -> str:
    """Render the tokens of a term as `spaceless_tokens` would, but the text may go on after it."""
    *first, last = find_pieces(fold(term.text))
    tokens: list[str] = []
    for piece in first:
        tokens += [piece[0]] if piece["run"] is None else _grams(piece[0])
    if last["run"] is None:
        phrase = " ".join([*tokens, last[0]])
        return _beginning(phrase, last[0]) if term.prefix else _quote(phrase)
    # The run may go on in the text: all its bigrams, or one character that some token begins with.
    grams = _grams(last[0])
    if len(grams) == 1:
        return _quote(" ".join(tokens + grams)) + " *"
    return _quote(" ".join(tokens + grams[:-1]))


def _beginning(phrase: str, word: str) -> str:
    """Render a phrase whose last word, `word`, is a beginning.

    FTS5 stems beginnings too: `bas*` would ask for `ba*`, and `generat*` miss `generation`, whose
    stem is `gener`. So the word gets an ending that protects it (`basness` has the stem `bas`), and
    the stems of longer words that fall short of it are asked for by name.
    """
    ending = protective_ending(word)
    shorter = [_quote(phrase + longer) for longer in stunting_endings(word, stem(word + ending))]
    matches = " OR ".join([_quote(phrase + ending) + " *", *shorter])
    return f"({matches})" if shorter else matches


def _quote(text: str) -> str:
    return '"' + encode_text(text).replace('"', '""') + '"'
