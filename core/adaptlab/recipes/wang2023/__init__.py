"""Recipes of Wang et al. (EMNLP 2023; arXiv 2305.14160).

The paper is "Label Words are Anchors: An Information Flow Perspective for Understanding In-Context
Learning".
"""
