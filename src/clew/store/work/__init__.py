"""The code that both engines share.

A piece of work is a coroutine over a `transaction.Transaction`; a class here implements one port
with such pieces, and `SqliteStore` and `PostgresStore` inherit from these classes. What differs
between the engines (search, connections, live processes, the hot paths) is in their own folders.
Nothing here imports a driver.
"""
