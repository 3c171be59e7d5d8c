"""How fast and how safe clew is, measured: `python -m benchmarks`. Nothing here is shipped."""
