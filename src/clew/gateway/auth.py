"""Credentials: which person one belongs to, and which scopes it has.

A credential is a bearer token, or the cookie that a browser got for a one-time code; both are
tokens of the store, of which only the digest is kept, and neither is taken for the other. Nothing
in a request can widen its scopes.
Hosts and origins are checked in `middleware`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import Any, Final

import msgspec
from starlette.requests import HTTPConnection

from clew.api.handlers.parts import Caller
from clew.api.handlers.tokens import make_token
from clew.api.operation import Operation
from clew.core.tokens import ALL, Token, digest_of, is_usable
from clew.errors import ClewError, TooManyRequests, Unauthorized
from clew.gateway.middleware import LOOPBACK, address_of
from clew.gateway.unknown_senders import Limits, UnknownSenders, network_of
from clew.ports import Clock, Tokens
from clew.runtime.event_log import EventLog

MINUTE: Final = 60_000
MAX_TRIES: Final = 10
MAX_ADDRESSES: Final = 10_000
CODE_MS: Final = 15 * MINUTE
BROWSER_MS: Final = 30 * 24 * 60 * MINUTE


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How a gateway is reached. `instance` makes its cookie differ from others on this host.

    `tls`: it speaks TLS itself. `behind_proxy`: a proxy in front of it does, and names the client.
    """

    instance: str = "0"
    hosts: tuple[str, ...] = LOOPBACK
    tls: bool = False
    behind_proxy: bool = False

    @property
    def cookie(self) -> str:
        """The cookie's name. Browsers send a cookie to all ports of a host, hence the instance."""
        return f"clew_{self.instance}"


class Credential(msgspec.Struct, frozen=True):
    """An accepted credential: who calls, and the digest of the secret."""

    caller: Caller
    digest: bytes
    by_cookie: bool = False


class Gate:
    """Accepts or refuses credentials."""

    def __init__(
        self,
        tokens: Tokens,
        clock: Clock,
        setup: Setup | None = None,
        limits: Limits | None = None,
        events: EventLog | None = None,
    ) -> None:
        self.setup = setup or Setup()
        self.unknown = UnknownSenders(limits, behind_proxy=self.setup.behind_proxy)
        """Who has no credential, or has not sent it yet."""
        self.closed = asyncio.Event()
        """Set when the gateway is about to stop: endless streams end then."""
        self._events = events or EventLog(clock)
        self._tokens = tokens
        self._clock = clock
        self._tries = WrongGuesses()
        self._codes: dict[bytes, int] = {}

    # --- every request --------------------------------------------------------------------------

    async def admit(self, connection: HTTPConnection, operation: Operation[Any, Any]) -> Credential:
        """The credential of a request, if it suffices for the operation.

        `Unauthorized`, `Forbidden`, or `TooManyRequests` for wrong guesses.
        """
        secret, by_cookie = self._find_secret(connection)
        if secret is None:
            raise Unauthorized(
                "This needs a token: `--token` of clew, or `Authorization: Bearer …`. "
                "`clew token create` makes one."
            )
        # The look-up is by a digest of 256 random bits, so its time tells nothing about the
        # secret, and a comparison in constant time is not needed.
        digest = digest_of(secret)
        token = await self._tokens.find_token(digest)
        if token is None or (token.kind == "cookie") is not by_cookie:
            raise self._count_try(connection)
        given = self._check(token, digest, by_cookie=by_cookie)
        given.caller.check(operation)
        return given

    async def check_again(self, given: Credential) -> None:
        """`Unauthorized` if an accepted credential has ended since. For long streams."""
        token = await self._tokens.find_token(given.digest)
        if token is None:
            raise Unauthorized(
                "This token does not exist any more. `clew token create` makes another."
            )
        self._check(token, given.digest, by_cookie=given.by_cookie)

    def _check(self, token: Token, digest: bytes, *, by_cookie: bool) -> Credential:
        if not is_usable(token, self._clock()):
            how = "expired" if token.revoked_at is None else "was revoked"
            raise Unauthorized(f"This token {how}. `clew token create` makes another.")
        return Credential(Caller(token.person, token.scopes, token.id), digest, by_cookie)

    def _find_secret(self, connection: HTTPConnection) -> tuple[str | None, bool]:
        given = connection.headers.getlist("authorization")
        if given:
            scheme, _, secret = given[0].partition(" ")
            if len(given) > 1 or scheme.lower() != "bearer" or not secret.strip():
                raise Unauthorized("Send one credential, as `Authorization: Bearer TOKEN`.")
            return secret.strip(), False
        return connection.cookies.get(self.setup.cookie) or None, True

    def _count_try(self, connection: HTTPConnection) -> ClewError:
        """Count a wrong guess. Right credentials from the same address are still accepted."""
        address = address_of(connection.scope, behind_proxy=self.setup.behind_proxy)
        if self._tries.count(address, self._clock()) > MAX_TRIES:
            return TooManyRequests("Too many wrong tokens from this address. Wait a minute.")
        return Unauthorized("This token is not known here. `clew token list` shows the known ones.")

    # --- browsers -------------------------------------------------------------------------------

    def make_code(self) -> str:
        """A code that a browser exchanges for a cookie, once and within 15 minutes."""
        now = self._clock()
        self._codes = {each: end for each, end in self._codes.items() if now < end}
        code = secrets.token_urlsafe(32)
        self._codes[digest_of(code)] = now + CODE_MS
        return code

    async def redeem(self, connection: HTTPConnection, code: str) -> tuple[Token, str]:
        """Exchange a code for a browser's token and its secret; `Unauthorized` for a wrong code."""
        now = self._clock()
        if self._codes.pop(digest_of(code), 0) <= now:
            self._events.report("sign_in_refused", "A browser came with a wrong or used link.")
            error = self._count_try(connection)
            if isinstance(error, Unauthorized):
                error = Unauthorized(
                    "This link was already used, or is too old. `clew gateway link` makes one."
                )
            raise error
        token, secret = make_token("browser", ALL, now, expires_at=now + BROWSER_MS, kind="cookie")
        await self._tokens.add_token(token, digest_of(secret))
        self._events.report("signed_in", "A browser signed in.")
        return token, secret

    async def leave(self, given: Credential) -> None:
        """Revoke the token of a browser's cookie; any other stays."""
        if given.by_cookie and given.caller.token_id is not None:
            await self._tokens.revoke_token(given.caller.token_id)
            self._events.report("signed_out", "A browser signed out.")


class WrongGuesses:
    """Wrong guesses of the last minute, by address."""

    def __init__(self) -> None:
        self._times: dict[str, deque[int]] = {}

    def count(self, address: str, now: int) -> int:
        """Add one; returns how many there are with it."""
        key = network_of(address)
        # The address that tried last is forgotten last.
        times = self._times.pop(key, None) or deque(maxlen=MAX_TRIES + 1)
        while times and times[0] <= now - MINUTE:
            times.popleft()
        times.append(now)
        self._times[key] = times
        if len(self._times) > MAX_ADDRESSES:
            del self._times[next(iter(self._times))]
        return len(times)
