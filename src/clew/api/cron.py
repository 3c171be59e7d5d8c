"""Jobs that run on a schedule."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.chat import Accepted
from clew.api.fields import Key, Word
from clew.api.operation import NoParams, Params, row
from clew.core.cron import CronJob
from clew.core.keys import MAX_KEY


class AddJob(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that runs on a schedule. `session` is `isolated`, `fixed`, or a key.

    `schedule` has five fields, or says `every 2h`. `deliver_to` is a channel and an id there.
    """

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    schedule: Annotated[str, Meta(min_length=1, max_length=200)]
    text: Annotated[str, Meta(min_length=1, max_length=100_000)]
    agent: Word = "main"
    session: Key = "isolated"
    deliver_to: Annotated[str, Meta(min_length=1, max_length=MAX_KEY)] | None = None
    timezone: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class OneJob(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a job."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]


class JobList(msgspec.Struct, frozen=True):
    """The jobs, by name."""

    jobs: tuple[CronJob, ...]


# --- the rows of the table ---------------------------------------------------------------------

LIST: Final = row(
    "cron.list", "GET", "cron", "read", NoParams, JobList,
    "List the jobs.",
)  # fmt: skip
ADD: Final = row(
    "cron.add", "POST", "cron", "admin", AddJob, CronJob,
    "Add a job.", status=201,
)  # fmt: skip
REMOVE: Final = row(
    "cron.remove", "DELETE", "cron/{name}", "admin", OneJob, CronJob,
    "Remove a job. Its sessions stay.",
)  # fmt: skip
RUN: Final = row(
    "cron.run", "POST", "cron/{name}/run", "admin", OneJob, Accepted,
    "Run a job now.", status=202,
)  # fmt: skip
ROWS: Final = (
    LIST,
    ADD,
    REMOVE,
    RUN,
)
