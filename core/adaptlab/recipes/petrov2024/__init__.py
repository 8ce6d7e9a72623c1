"""Recipes of Petrov, Torr, Bibi (ICLR 2024; arXiv 2310.19698).

The paper is "When Do Prompting and Prefix-Tuning Work?".
"""
