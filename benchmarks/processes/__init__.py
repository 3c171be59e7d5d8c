"""The processes that benchmarks start, and kill: they talk, write, listen or serve."""
