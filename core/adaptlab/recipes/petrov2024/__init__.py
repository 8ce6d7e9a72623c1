"""Petrov, Torr, Bibi: When Do Prompting and Prefix-Tuning Work? (ICLR 2024; arXiv 2310.19698)."""
