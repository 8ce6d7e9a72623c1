"""Science of adaptlab: specs without torch, and training in `engine`.

The package has no HTTP, SQL, queue, settings or clock; everything arrives as an argument.
"""
