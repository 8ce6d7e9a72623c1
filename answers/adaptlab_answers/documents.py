"""JSON objects whose members are described elsewhere."""

JsonObject = dict[str, object]
"""An accepted spec, a plug-in's configuration, or details of any kind."""
