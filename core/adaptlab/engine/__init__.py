"""The torch half of the core. Everything carries a replicate axis.

Shapes use R replicates, S seeds, G weight groups (G divides R), B samples, T positions,
P learned positions, C width, H heads, V vocabulary.
"""
