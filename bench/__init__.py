"""Measurements, side by side where there is something to compare with: `make bench`.

Figures of one run are comparable with each other, those of two runs on shared machines are not.
"""
