"""Objects of JSON whose members another declaration describes."""

JsonObject = dict[str, object]
"""A spec as it was accepted, the configuration of a plug-in, or details of any kind."""
