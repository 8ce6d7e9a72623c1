"""FluentPrompt: projected descent with noise and a term for fluency."""

from adaptlab.engine.methods.autoprompt_sgd import ProjectedDescent
from adaptlab.engine.plugins import ENGINE_METHODS, ENGINE_SEARCHES
from adaptlab.engine.training.token_search import attach

ENGINE_METHODS.register("fluentprompt")(attach)
ENGINE_SEARCHES.register("fluentprompt")(ProjectedDescent)
