"""Use cases: one wing per subject, one file per noun.

May import only `adaptlab_db`, `adaptlab_answers` and the torch-free part of `adaptlab`. Wings
import one another in one direction, which `lint-imports` checks; each wing's `__init__` says what
lives there.
"""
