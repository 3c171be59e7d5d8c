"""What both engines do, written once.

A piece of work is a coroutine over a `transaction.Transaction`; a class here implements one port
with such pieces, and `SqliteStore` and `PostgresStore` are made of these classes. What an engine
does in its own way (search, connections, who is alive, the hot paths) is in the folder of the
engine. Nothing here imports a driver.
"""
