"""Job specs: what can be asked for, what it becomes when resolved, and what it costs.

Imports the plug-ins, `weights` and `plugins`.
"""
