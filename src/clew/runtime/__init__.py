"""Sessions in time: who runs a turn, what is committed when, and who sees it.

    Runtime.accept ─► inbound/ (decide, store, carry out) ─► lane/ (order, lease, turn) ─► agent
    Runtime.watch  ◄─ watch.py (events of this and other processes)
    lane/ ─► outbound/ (replies, delivery) · upkeep/ (titles, compaction, usage) · hooks.py
    recovery.py continues the work of dead processes, through inbound/ and `Runtime.retry`
    commands/ what each slash command does · cron.py jobs · supervisor.py restarts what failed

This package knows the ports and core. It builds nothing itself: `wiring` gives it a store, an agent
and hooks. Surfaces send messages with `Runtime.accept` and read events with `Runtime.watch`.
"""
