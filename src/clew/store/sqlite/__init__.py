"""The store in one SQLite file.

    store ─► work/…, log, search ─► engine ─► database ─► connection
             the ports              work as    locks,      one writer thread,
                                    functions  commits     a few readers

`schema` and migrations/ make the tables; `search_index` is what clew does for FTS5. On the file of
a store that is not open here: `backup`, `doctor`, `repair`, `copy_side`.
"""
