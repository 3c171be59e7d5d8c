"""Sessions in time: who runs a turn, what is committed when, and who sees it.

    Runtime.accept ─► inbound/ (decide, keep, carry out) ─► lane/ (order, lease, turn) ─► agent
    Runtime.watch  ◄─ watch.py (what this and other processes do)
    lane/ ─► outbound/ (replies, delivery) · upkeep/ (titles, compaction, usage) · hooks.py
    recovery/ goes on with what dead processes left, through inbound/ and `Runtime.retry`
    commands/ what each slash command does · cron.py jobs · supervisor.py what is kept going

This room knows the ports and core. It builds nothing itself: `wiring` hands it a store, an agent
and hooks; surfaces come in through `Runtime.accept` and look through `Runtime.watch`.
"""
