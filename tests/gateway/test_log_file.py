"""The log of a gateway: bounded, private, one line an event, and never in the way."""

from __future__ import annotations

import stat
from pathlib import Path

from clew.core.gateway_events import GatewayEvent
from clew.gateway.log_file import NAME, LogFile, LogReader, read_log


def event(number: int, count: int = 1) -> GatewayEvent:
    return GatewayEvent(
        number=number, at=number, kind="turn_done", level="info", text="A turn.", count=count
    )


def numbers(events: object) -> list[int]:
    return [each.number for each in events]  # type: ignore[attr-defined]


def test_what_is_written_is_read_in_order_by_its_owner_only(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    for number in range(5):
        log.write(event(number))
    assert numbers(read_log(tmp_path)) == [0, 1, 2, 3, 4]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_the_log_does_not_grow_for_ever(tmp_path: Path) -> None:
    log = LogFile(tmp_path, max_bytes=2_000)
    for number in range(1_000):
        log.write(event(number))
    files = sorted(tmp_path.iterdir())
    assert sum(each.stat().st_size for each in files) <= 4 * 2_100
    kept = numbers(read_log(tmp_path))
    assert kept == list(range(kept[0], 1_000))


def test_an_event_that_repeats_is_written_at_each_power_of_ten(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    for count in range(1, 1_500):
        log.write(event(count, count))
    assert [each.count for each in read_log(tmp_path)] == [1, 10, 100, 1_000]


def test_lines_that_are_no_events_are_passed_over(tmp_path: Path) -> None:
    log = LogFile(tmp_path)
    log.write(event(1))
    with (tmp_path / NAME).open("ab") as file:
        file.write(b"not json\n{}\n\xff\n")
    log.write(event(2))
    assert numbers(read_log(tmp_path)) == [1, 2]


def test_a_reader_follows_over_the_change_of_files(tmp_path: Path) -> None:
    log, reader = LogFile(tmp_path, max_bytes=500), LogReader(tmp_path)
    seen: list[int] = []
    for number in range(50):
        log.write(event(number))
        seen += numbers(reader.read())
    assert seen == list(range(50))


def test_a_log_that_can_not_be_written_does_not_disturb(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    LogFile(tmp_path).write(event(1))
