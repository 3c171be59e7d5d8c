"""Errors of PostgreSQL as errors of clew. No `psycopg` error leaves the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from clew import errors

# By SQLSTATE, the longest beginning first: https://www.postgresql.org/docs/current/errcodes-appendix
_STATES: tuple[tuple[str | tuple[str, ...], type[errors.ClewError], str], ...] = (
    (
        "53100",
        errors.StoreFull,
        "No space left for {place}. Free some and try again; what was acknowledged is safe.",
    ),
    (
        "53300",
        errors.StoreUnavailable,
        "{place} has no connection left ({why}). Raise its max_connections, or close something.",
    ),
    (
        "42501",
        errors.StoreReadOnly,
        "{place} does not let this user write ({why}). Grant what the guide on PostgreSQL lists.",
    ),
    (
        "25006",
        errors.StoreReadOnly,
        "{place} can't be written to ({why}). Is it a standby? Use the primary's address.",
    ),
    (
        "57014",
        errors.StoreBusy,
        "{place} took too long to answer ({why}). Try again in a moment.",
    ),
    (
        "55P03",
        errors.StoreBusy,
        "Other processes kept {place} busy for too long ({why}). Try again.",
    ),
    ("40", errors.StoreBusy, "Other processes kept {place} busy for too long ({why}). Try again."),
    ("25P03", errors.StoreUnavailable, "{place} gave up waiting for this process: {why}."),
    ("XX001", errors.StoreDamaged, "{place} is damaged ({why}). Restore it from a backup."),
    ("XX002", errors.StoreDamaged, "{place} is damaged ({why}). REINDEX may help."),
    (
        "54",
        errors.InvalidInput,
        "A value that is too large for the store: {why}. Nothing was changed.",
    ),
    (
        ("22", "23"),
        errors.InvalidInput,
        "A value that the store does not accept: {why}. Nothing was changed.",
    ),
    (
        "28",
        errors.StoreUnavailable,
        "{place} does not let this user in ({why}). Check the user and password of the URL.",
    ),
    (
        ("26000", "42P05"),
        errors.StoreUnavailable,
        "{place} has lost a prepared statement ({why}). Set PgBouncer to session mode.",
    ),
    (
        "3D000",
        errors.StoreUnavailable,
        "{place} does not exist ({why}). Make the database first: createdb NAME.",
    ),
)

# A refused connection has a sentence and no code. In another language it is shown as it is.
_REFUSED: tuple[tuple[str, str], ...] = (
    (
        "no password supplied",
        "{place} asks for a password. Put it into ~/.pgpass (mode 0600) or PGPASSWORD.",
    ),
    (
        "authentication failed",
        "{place} does not let this user in ({why}). Check the user, and ~/.pgpass or PGPASSWORD.",
    ),
    (
        "certificate verify failed",
        "{place} has a certificate that sslrootcert does not confirm ({why}). Check both.",
    ),
    (
        "does not match host name",
        "{place} has the certificate of another host ({why}). Check the host in the URL.",
    ),
    ('database "', "{place} does not exist ({why}). Make the database first: createdb NAME."),
)

_UNKNOWN_FATE = (
    "The connection to {place} was lost ({why}) while something was being committed: it is not "
    "known whether it was written. Check before you try again."
)

DRIVER_ERRORS = (psycopg.Error, OverflowError)


def translate(error: Exception, place: str, *, fate_unknown: bool = False) -> errors.ClewError:
    """The clew error for an error of the driver."""
    state = getattr(error, "sqlstate", None) or ""
    why = _reason_of(error, state)
    if not fate_unknown:
        for beginning, ours, sentence in _STATES:
            if state.startswith(beginning):
                return ours(sentence.format(place=place, why=why))
        if isinstance(error, psycopg.DataError | OverflowError) and not state:
            return errors.InvalidInput(f"A value that the store does not accept: {why}.")
        if isinstance(error, psycopg.OperationalError) and not state:
            _, _, reason = why.rpartition(" failed: ")
            for known, sentence in _REFUSED:
                if known in reason:
                    return errors.StoreUnavailable(sentence.format(place=place, why=reason))
    if fate_unknown:
        return errors.FateUnknown(_UNKNOWN_FATE.format(place=place, why=why))
    return errors.StoreUnavailable(f"{place} can't be used: {why}.")


def _reason_of(error: Exception, state: str) -> str:
    """What the server says, without its details: those quote the row, and so what people said."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) and state else None
    why = " ".join((primary or str(error)).split()).rstrip(".")
    return why.partition(': "')[0] if state.startswith("22") else why


def is_repeatable(error: Exception) -> bool:
    """Whether PostgreSQL asks to repeat the transaction: after a deadlock or a race."""
    return isinstance(error, psycopg.errors.DeadlockDetected | psycopg.errors.SerializationFailure)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise errors of the driver as errors of clew."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, place) from error
