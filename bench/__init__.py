"""Benchmarks, against an alternative where there is one: `make bench`.

Figures of one run are comparable with each other, those of two runs on shared machines are not.
"""

import os

# As in a worker's trainer; the library of threads reads it when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
