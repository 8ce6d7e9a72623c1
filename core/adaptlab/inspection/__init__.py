"""What is in a file of records, and the task that fits it.

May import specs.
"""
