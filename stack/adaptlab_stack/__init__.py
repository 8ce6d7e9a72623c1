"""Embedded servers and supervised processes: `adaptlab up` and `adaptlab demo`.

May touch everything below it, and nothing imports it.
"""
