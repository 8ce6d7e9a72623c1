"""The pages of recipes, and the report on a recipe's study.

May import rendering.
"""
