"""Tasks, one per file.

Their items are generated in `adaptlab.engine.tasks`.
"""
