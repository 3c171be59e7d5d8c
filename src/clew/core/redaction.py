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
_ASSIGN: Final = r"""(?: \\?["'`] )? [ \t]{0,4} (?: => | := | [:=] ) [ \t]{0,4}"""

# Each keeps its group `keep` (and `tail`) and masks the rest. All run in linear time: a repeated
# part either can't start inside its own run or is bounded, and `++` never goes back.
_SECRETS: Final = (
    # PEM private keys, whole, or cut off after some lines of base64
    r"""(?P<keep> -----BEGIN\ (?P<kind>[A-Z0-9 ]{0,24})PRIVATE\ KEY----- )
        [^-]*+ (?: -(?!----) [^-]*+ )*+ (?P<tail> -----END\ (?P=kind)PRIVATE\ KEY----- )""",
    r"""(?P<keep> -----BEGIN\ [A-Z0-9 ]{0,24}PRIVATE\ KEY----- )
        (?: (?: \\[nr] | \s ){1,4} [A-Za-z0-9+/=]{16,}+ )++ (?P<tail>)""",
    # the password in a URL
    r"""(?P<keep> ://[^\s/:@"'`]{0,256}: ) [^\s/"'`]{1,1024} (?P<tail> @ )""",
    # HTTP credentials
    rf"""(?P<keep> (?i:authorization) {_ASSIGN} (?: \\?["'] )?
         (?i: bearer | basic | token | digest )[ \t]{{1,4}} )
         (?!\[redacted\]) [^\s"'`\\]{{4,}}+ (?P<tail>)""",
    r"""(?P<keep> \b(?i:bearer)[ \t]{1,4} ) [A-Za-z0-9._~+/=-]{20,}+ (?P<tail>)""",
    # assignments, quoted
    rf"""(?P<keep> (?i:{_NAME}) {_ASSIGN} (?P<quote> \\?["'`] ) )
         (?!\[redacted\]) (?: (?!(?P=quote)) \\?+ [^\n] ){{8,}}+ (?P<tail>)""",
    # assignments without quotes, but not a call, a subscript, an attribute or a variable
    rf"""(?P<keep> (?i:{_NAME}) {_ASSIGN} )
         (?! \[redacted\] | [A-Za-z_][\w.]*+[(\[]\S*[)\]] | (?:self|this|os|process|args)\.
           | \$\{{ | \$[A-Z_]+\b | [<\{{] )
         [^\s"'`\\]{{7,}} [^\s"'`\\),;.\}}\]>] (?P<tail>)""",
    # keys that can be told by their beginning
    r"""(?<![A-Za-z0-9_-]) (?P<keep> sk- ) (?! (?:ant|proj|or)- )
        (?=[A-Za-z_-]*+[0-9]) [A-Za-z0-9_-]{16,}+ (?P<tail>)""",
    r"""(?<![A-Za-z0-9_-])
        (?P<keep> sk-(?:ant|proj|or)- | [rs]k_(?:live|test)_ | gh[oprsu]_ | github_pat_
          | glpat- | hf_ | npm_ | xox[abeoprs]- | pypi- | AIza )
        [A-Za-z0-9_-]{16,}+ (?P<tail>)""",
    r"""(?<![A-Za-z0-9]) (?P<keep> AKIA | ASIA ) [A-Z0-9]{16} (?![A-Za-z0-9]) (?P<tail>)""",
    # Telegram bots
    r"""(?<![A-Za-z0-9]) (?P<keep> [0-9]{8,10}: ) [A-Za-z0-9_-]{35} (?![A-Za-z0-9_-])
        (?P<tail>)""",
    # JSON web tokens
    r"""(?<![A-Za-z0-9_.-]) (?P<keep> eyJ ) [A-Za-z0-9_-]{8,}+ \. [A-Za-z0-9_-]{8,}+
        (?: \. [A-Za-z0-9_-]*+ )? (?P<tail>)""",
)

HIDDEN = "(hidden)"

# Up to the last @: a password may contain an @ that should have been %40.
_USER: Final = r"(?s)^(?P<before>[A-Za-z][\w+.-]*:/{1,3}[^/?#@:]*):.*@"
_FIELD: Final = r"(?i)(?P<before>[?&][^=&#]*(?:password|token|secret|key)=)[^&#]*"


def redact(text: str) -> str:
    """Return `text` with `[redacted]` in place of what looks like a secret.

    Names and tell-tale beginnings stay (`sk-[redacted]`, `password=[redacted]`), so that a reader
    sees what was there.
    """
    for secret in _compile_secrets():
        text = secret.sub(rf"\g<keep>{_MASK}\g<tail>", text)
    return text


@cache  # at first use: the configuration needs `hide_password` only, at every start
def _compile_secrets() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.VERBOSE) for pattern in _SECRETS)


def hide_password(text: str) -> str:
    """A URL without its password; any other text as it is."""
    if "://" not in text and ":/" not in text:
        return text
    text = re.sub(_USER, rf"\g<before>:{HIDDEN}@", text)
    return re.sub(_FIELD, rf"\g<before>{HIDDEN}", text)
