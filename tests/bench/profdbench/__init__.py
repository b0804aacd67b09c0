"""What profd costs and how it scales, measured: the parts behind tests/bench/bench."""

import os
import sys

# For what the tests know of the JSON of an answer.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
