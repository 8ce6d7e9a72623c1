"""Recipes of Shuttleworth et al. (2024; arXiv 2410.21228).

The paper is "LoRA vs Full Fine-tuning: An Illusion of Equivalence".
"""
