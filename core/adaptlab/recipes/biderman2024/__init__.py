"""Recipes of Biderman et al. (TMLR 2024; arXiv 2405.09673).

The paper is "LoRA Learns Less and Forgets Less".
"""
