"""Job specs as submitted, their resolved form, and the cost of a job.

Imports the plug-ins, `weights` and `plugins`.
"""
