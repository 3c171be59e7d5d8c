"""The store in a PostgreSQL database.

    store ─► work/…, log, search ─► database ─► connection
             the ports              jobs,       the pool
                                    commits

`record` and `bulk` write; `words`, `scope` and `ranking` make the statement of a `search`;
`presence` tells which processes are alive; `schema` and migrations/ make the tables. On a database
that is not open here: `doctor`, `repair`, `copy_side`.
"""
