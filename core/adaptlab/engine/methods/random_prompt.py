"""Random tokens before the input."""

from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.engine.training.token_search import attach

ENGINE_METHODS.register("random_prompt")(attach)
