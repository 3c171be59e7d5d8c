"""Mask what looks like a secret, in text that leaves the store, and passwords in URLs.

It can't find everything: a secret that looks like ordinary text is not masked.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_MASK: Final = "[redacted]"
_NAME: Final = (
    r"(?: pass(?:word|wd|phrase) | pwd | secret | token | credentials?"
    r"  | (?:api|access|secret|private|account|auth|encryption|signing)[_-]?key )"
)
_PASSWORD: Final = r"(?: pass(?:word|wd|phrase) | pwd )"  # noqa: S105  # the word, no password
_ASSIGN: Final = r"""(?: \\?["'`] )? [ \t]{0,4} (?: => | := | [:=] ) [ \t]{0,4}"""

_OPTION: Final = r"(?<![A-Za-z0-9-]) -- (?:[a-z]{1,20}-){0,3}"

_CODE: Final = (
    r"[A-Za-z_][\w.]{0,99}+[(\[]\S{0,200}[)\]] | (?:self|this|os|process|args)\."
    r" | \$\{ | \$[A-Z_]+\b | [<{]"
)
"""A call, a subscript, an attribute, or a variable to be filled in."""

# Each keeps its group `keep` (and `tail`) and masks the rest. All run in linear time: a repeated
# part either can't start inside its own run or is bounded, and `++` never goes back. Before it are
# words of which a text must have one for it to match, as in `_prepare`: most texts have none, and
# looking for a word takes a hundredth of the time.
_PASSWORDS: Final = ("password", "passwd", "passphrase", "pwd")
_NAMES: Final = (
    *_PASSWORDS, "secret", "token", "credential", "_key", "-key", "apikey", "accesskey",
    "privatekey", "accountkey", "authkey", "encryptionkey", "signingkey",
)  # fmt: skip
_SECRETS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    # PEM private keys, whole, or cut off after some lines of base64
    (("private key",),
     r"""(?P<keep> -----BEGIN\ (?P<kind>[A-Z0-9 ]{0,24})PRIVATE\ KEY----- )
        [^-]*+ (?: -(?!----) [^-]*+ )*+ (?P<tail> -----END\ (?P=kind)PRIVATE\ KEY----- )"""),
    (("private key",),
     r"""(?P<keep> -----BEGIN\ [A-Z0-9 ]{0,24}PRIVATE\ KEY----- )
        (?: (?: \\[nr] | \s ){1,4} [A-Za-z0-9+/=]{16,}+ )++ (?P<tail>)"""),
    # the password in a URL
    (("://",),
     r"""(?P<keep> ://[^\s/:@"'`]{0,256}: ) [^\s/"'`]{1,1024} (?P<tail> @ )"""),
    # HTTP credentials
    (("authorization",),
     rf"""(?P<keep> (?i:authorization) {_ASSIGN} (?: \\?["'] )?
         (?i: bearer | basic | token | digest )[ \t]{{1,4}} )
         (?!\[redacted\]) [^\s"'`\\]{{4,}}+ (?P<tail>)"""),
    (("bearer",),
     r"""(?P<keep> \b(?i:bearer)[ \t]{1,4} ) [A-Za-z0-9._~+/=-]{20,}+ (?P<tail>)"""),
    # clew's own: tokens, the code in a link that signs a browser in, and that of a pairing
    (("clew_",),
     r"""(?<![A-Za-z0-9_-]) (?P<keep> clew_ ) [A-Za-z0-9_-]{32,}+ (?P<tail>)"""),
    (("code",),
     rf"""(?P<keep> \b(?i:code) {_ASSIGN} (?: \\?["'`] )? ) [A-Za-z0-9_-]{{40,}}+ (?P<tail>)"""),
    (("pair", "code"),
     r"""(?P<keep> \b(?i: pair(?:ing)? | code )\b (?: [ \t]{1,4}[a-z]{1,10} ){0,2} :? [ \t]{1,4} )
         [A-HJ-NP-Z]{4}-[A-HJ-NP-Z]{4} (?![A-Za-z0-9-]) (?P<tail>)"""),
    # assignments, quoted; a password may be short
    (_PASSWORDS,
     rf"""(?P<keep> (?i:{_PASSWORD}) {_ASSIGN} (?P<quote> \\?["'`] ) )
         (?!\[redacted\]) (?: (?!(?P=quote)) \\?+ [^\n] )++ (?P<tail> (?P=quote) )"""),
    (_NAMES,
     rf"""(?P<keep> (?i:{_NAME}) {_ASSIGN} (?P<quote> \\?["'`] ) )
         (?!\[redacted\]) (?: (?!(?P=quote)) \\?+ [^\n] ){{8,}}+ (?P<tail>)"""),
    # and bare, but not code
    (_PASSWORDS,
     rf"""(?P<keep> (?i:{_PASSWORD}) = )
         (?! \[redacted\] | = | {_CODE} | (?i: none | null | nil | true | false )\b )
         [^\s"'`\\]* [^\s"'`\\),;.\}}\]>] (?P<tail>)"""),
    (_NAMES,
     rf"""(?P<keep> (?i:{_NAME}) {_ASSIGN} ) (?! \[redacted\] | {_CODE} )
         [^\s"'`\\]{{7,}} [^\s"'`\\),;.\}}\]>] (?P<tail>)"""),
    # arguments of a command, after a space; not a placeholder, not the next option, not prose
    (("--",),
     rf"""(?P<keep> {_OPTION} {_PASSWORD} [ \t]{{1,4}} (?P<quote> ["'] ) )
         (?!\[redacted\]) (?: (?!(?P=quote)) [^\n] )++ (?P<tail> (?P=quote) )"""),
    (("--",),
     rf"""(?P<keep> {_OPTION} {_PASSWORD} [ \t]{{1,4}} )
         (?! \[redacted\] | - | {_CODE} | [A-Z_]+\b | [a-z]{{1,3}}\b )
         [^\s"'`]{{2,}} [^\s"'`),;.] (?P<tail>)"""),
    (("--",),
     rf"""(?P<keep> {_OPTION} {_NAME} [ \t]{{1,4}} ["']? )
         (?! \[redacted\] | - | {_CODE} | [A-Z_]+\b | (?:env|file): )
         (?= [^\s"'`0-9A-Z_]*+ [0-9A-Z_] ) [^\s"'`]{{7,}} [^\s"'`),;.] (?P<tail>)"""),
    # keys that can be told by their beginning
    (("sk-",),
     r"""(?<![A-Za-z0-9_-]) (?P<keep> sk- ) (?! (?:ant|proj|or)- )
        (?=[A-Za-z_-]*+[0-9]) [A-Za-z0-9_-]{16,}+ (?P<tail>)"""),
    (("sk-", "k_live_", "k_test_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_",
      "glpat-", "hf_", "npm_", "xox", "pypi-", "aiza"),
     r"""(?<![A-Za-z0-9_-])
        (?P<keep> sk-(?:ant|proj|or)- | [rs]k_(?:live|test)_ | gh[oprsu]_ | github_pat_
          | glpat- | hf_ | npm_ | xox[abeoprs]- | pypi- | AIza )
        [A-Za-z0-9_-]{16,}+ (?P<tail>)"""),
    (("akia", "asia"),
     r"""(?<![A-Za-z0-9]) (?P<keep> AKIA | ASIA ) [A-Z0-9]{16} (?![A-Za-z0-9]) (?P<tail>)"""),
    # Telegram bots
    (tuple(f"{digit}:" for digit in range(10)),
     r"""(?: (?<![A-Za-z0-9]) | (?<=/bot) ) (?P<keep> [0-9]{8,10}: )
        [A-Za-z0-9_-]{35} (?![A-Za-z0-9_-]) (?P<tail>)"""),
    # Slack apps
    (("xapp-",),
     r"""(?<![A-Za-z0-9_-]) (?P<keep> xapp- ) [A-Za-z0-9_-]{16,}+ (?P<tail>)"""),
    # Discord bots: the number of the bot in base64, a time, a signature
    (("mt", "mj", "mz", "nd", "nt", "nj", "nz", "od", "ot"),
     r"""(?<![A-Za-z0-9_.-]) (?P<keep>) (?: M[Tjz] | N[DTjz] | O[DT] ) [A-Za-z0-9_-]{21,26}
        \. [A-Za-z0-9_-]{6} \. [A-Za-z0-9_-]{27,40} (?![A-Za-z0-9_-]) (?P<tail>)"""),
    # JSON web tokens
    (("eyj",),
     r"""(?<![A-Za-z0-9_.-]) (?P<keep> eyJ ) [A-Za-z0-9_-]{8,}+ \. [A-Za-z0-9_-]{8,}+
        (?: \. [A-Za-z0-9_-]*+ )? (?P<tail>)"""),
)  # fmt: skip

HIDDEN = "(hidden)"

# Up to the last @: a password may contain an @ that should have been %40.
_USER: Final = r"(?s)^(?P<before>[A-Za-z][\w+.-]*:/{1,3}[^/?#@:]*):.*@"
_FIELD: Final = r"(?i)(?P<before>[?&][^=&#]*(?:password|token|secret|key)=)[^&#]*"


def redact(text: str) -> str:
    """Return `text` with `[redacted]` in place of what looks like a secret.

    Names and tell-tale beginnings stay (`sk-[redacted]`, `password=[redacted]`), so that a reader
    sees what was there.
    """
    prepared = _prepare(text)
    words, secrets = _compile_secrets()
    if not (found := {word for word in words if word in prepared}):
        return text
    for needed, secret in secrets:
        if not needed.isdisjoint(found):
            text = secret.sub(rf"\g<keep>{_MASK}\g<tail>", text)
    return text


def _prepare(text: str) -> str:
    """The text as words are looked for in it: without a case, as `(?i:…)` takes it."""
    return text.casefold().replace("\u0131", "i")


_Secrets = tuple[tuple[frozenset[str], re.Pattern[str]], ...]


@cache  # at first use: the configuration needs `hide_password` only, at every start
def _compile_secrets() -> tuple[frozenset[str], _Secrets]:
    """All words, and the patterns with those of which a text must have one."""
    secrets = tuple(
        (frozenset(words), re.compile(pattern, re.VERBOSE)) for words, pattern in _SECRETS
    )
    return frozenset().union(*(words for words, _ in secrets)), secrets


def hide_password(text: str) -> str:
    """A URL without its password; any other text as it is."""
    if "://" not in text and ":/" not in text:
        return text
    text = re.sub(_USER, rf"\g<before>:{HIDDEN}@", text)
    return re.sub(_FIELD, rf"\g<before>{HIDDEN}", text)
