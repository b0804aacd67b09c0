"""What profd costs and how it scales, measured: the parts behind tests/bench/bench."""
