"""Identities of the theory as functions on tensors, in float64."""
