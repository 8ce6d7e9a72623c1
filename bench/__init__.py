"""Benchmarks, against an alternative where there is one: `make bench`.

Figures of one run are comparable with each other, those of two runs on shared machines are not.
"""
