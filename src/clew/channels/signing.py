"""Signatures of webhooks: HMAC-SHA256 over the time and the body.

    X-Clew-Timestamp: 1777636800                 seconds UTC
    X-Clew-Signature: v1=<hex of HMAC-SHA256(secret, timestamp + "." + body)>

The same both ways. A signature is good for a few minutes around its time; that a message which
comes twice within them is one, is the inbox's business.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

from clew.errors import Unauthorized

TIMESTAMP: Final = "x-clew-timestamp"
SIGNATURE: Final = "x-clew-signature"
VERSION: Final = "v1"
WINDOW: Final = 300
"""Seconds that a signature's time may differ from now."""

SHORTEST: Final = 16
"""Characters of a secret that can't be guessed."""

_TIME: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_SIGNATURES: Final = 10


def sign(secret: str, body: bytes, at: int) -> dict[str, str]:
    """The headers of a body that is sent now; `at` in seconds."""
    return {TIMESTAMP: str(at), SIGNATURE: f"{VERSION}={_digest(secret, str(at), body)}"}


def check_signature(
    secret: str, headers: Mapping[str, str], body: bytes, *, now: int, window: int = WINDOW
) -> str:
    """The signature that fits, as hexadecimal digits; `Unauthorized` if none does.

    Header names are in small letters. Several signatures, parted by commas, are fine: secrets
    change. The answer is the same whatever is wrong.
    """
    stamp = headers.get(TIMESTAMP, "")
    expected = _digest(secret, stamp, body)
    given = headers.get(SIGNATURE, "").split(",")[:_SIGNATURES]
    found = False
    for each in given:
        wanted = f"{VERSION}={expected}".encode()
        found |= hmac.compare_digest(each.strip().encode(errors="replace"), wanted)
    if not found or not _TIME.fullmatch(stamp) or abs(now - int(stamp)) > window:
        raise Unauthorized("The signature of this request is missing, wrong or too old.")
    return expected


def _digest(secret: str, stamp: str, body: bytes) -> str:
    signed = stamp.encode(errors="replace") + b"." + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
