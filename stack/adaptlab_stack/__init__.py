"""Embedded servers and supervised processes, for `adaptlab up` and `demo`.

May import every other package; none imports it.
"""
