"""The store in a PostgreSQL database: its own SQL, the same contract."""
