"""Sessions in time: who runs a turn, what is committed when, and who sees it.

This room knows the ports and core. It builds nothing itself: `wiring` hands it a store, an agent
and hooks; surfaces come in through `Runtime.accept` and look through `Runtime.watch`.
"""
