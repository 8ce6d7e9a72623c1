"""Recipes of Wen et al. (NeurIPS 2023; arXiv 2302.03668).

The paper is "Hard Prompts Made Easy: Gradient-Based Discrete Optimization for Prompt Tuning and
Discovery".
"""
