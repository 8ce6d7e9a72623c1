"""The science of adaptlab: what can be asked for (torch-free) and how it is done (`engine`).

Knows no HTTP, SQL, queue, settings or clock; everything arrives as an argument.
"""
