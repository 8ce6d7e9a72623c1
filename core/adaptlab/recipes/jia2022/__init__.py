"""Recipes of Jia et al. (ECCV 2022; arXiv 2203.12119).

The paper is "Visual Prompt Tuning".
"""
