"""The report of a recipe's study as text, for a terminal and as Markdown."""
