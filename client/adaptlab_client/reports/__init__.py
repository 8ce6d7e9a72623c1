"""Text of a recipe's report, for terminals and as Markdown."""
