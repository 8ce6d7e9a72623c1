"""The share of memory that runs may use."""

USABLE = 0.8
"""Share of the memory that is there; servers, workers and other processes need some as well.

A run alone takes this share of what is free when it begins; of runs that share a machine, each
takes its part of this share of all memory.
"""
