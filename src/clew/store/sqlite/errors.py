"""Errors of SQLite as errors of clew. No `apsw` error leaves the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from clew import errors

DRIVER_ERRORS = (apsw.Error, OverflowError, UnicodeDecodeError)

_KINDS: tuple[tuple[type[Exception], type[errors.ClewError], str], ...] = (
    (
        apsw.FullError,
        errors.StoreFull,
        "No space left for {path}. Free some and try again; what was acknowledged is safe.",
    ),
    (
        apsw.ReadOnlyError,
        errors.StoreReadOnly,
        "{path} can't be written to. Check the permissions of the file and its directory.",
    ),
    (
        apsw.BusyError,
        errors.StoreBusy,
        "Other processes kept {path} busy for too long. Try again; `clew doctor` names them.",
    ),
    (
        apsw.LockedError,
        errors.StoreBusy,
        "Other processes kept {path} busy for too long. Try again; `clew doctor` names them.",
    ),
    (
        apsw.CorruptError,
        errors.StoreDamaged,
        (
            "{path} is damaged ({why}). It was left as it is. "
            "`clew doctor` tells more; `clew restore BACKUP --replace` puts a backup in its place."
        ),
    ),
    (
        apsw.NotADBError,
        errors.StoreDamaged,
        (
            "{path} is not a database, or its beginning is damaged. It was left as it is. "
            "`clew restore BACKUP --replace` puts a backup in its place."
        ),
    ),
    (
        apsw.ConstraintError,
        errors.InvalidInput,
        "A value that the store does not accept: {why}. Nothing was changed.",
    ),
    (
        apsw.MismatchError,
        errors.InvalidInput,
        "A value of the wrong type: {why}. Nothing was changed.",
    ),
    (
        apsw.TooBigError,
        errors.InvalidInput,
        "A value that is too large for the store (about 1 GB). Nothing was changed.",
    ),
)


def translate(error: Exception, path: Path) -> errors.ClewError:
    """The clew error for an error of the driver."""
    for kind, ours, sentence in _KINDS:
        if isinstance(error, kind):
            return ours(sentence.format(path=path, why=error))
    if isinstance(error, UnicodeDecodeError):
        return errors.StoreDamaged(
            f"{path} has text that is not UTF-8. It was left as it is. `clew doctor` tells more; "
            "`clew restore BACKUP --replace` puts a backup in its place."
        )
    if isinstance(error, OverflowError):
        return errors.InvalidInput(f"A number that is too large: {error}. Nothing was changed.")
    return errors.StoreUnavailable(
        f"{path} can't be used: {type(error).__name__}: {error}. `clew doctor` looks into it."
    )


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise errors of the driver and of the file system as errors of clew."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, path) from error
    except OSError as error:
        where = error.filename or path
        raise errors.StoreUnavailable(
            f"{where} can't be used: {error.strerror or error}."
        ) from error
