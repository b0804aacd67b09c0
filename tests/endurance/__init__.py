"""Long runs: storms of short processes, and an hour's work of a server. For `tests/run --all`."""
