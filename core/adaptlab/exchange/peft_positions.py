"""Position vectors for PEFT, which moves content behind the learned positions."""

from adaptlab.exchange.modules import PublishedModel
from adaptlab.exchange.plugins import BaseTensors, PeftForm
from adaptlab.weights.library_tensors import POSITIONS


def moved_positions(model: PublishedModel, length: int, base: BaseTensors) -> PeftForm:
    """Return the members and tensors that keep the content's position vectors.

    Here content has the positions 0, 1, …, and learned positions have no position vector. PEFT
    gives the positions 0 to `length` − 1 to learned positions and the next ones to content. So the
    adapter has its own table: zeros for `length` positions, then the base's vectors. Models with
    rotary positions see only distances and need nothing.
    """
    if POSITIONS not in model.shape.tensors:
        return PeftForm({}, {})
    import numpy as np

    table = base(POSITIONS)
    first = len(table) - model.shape.context  # OPT's content begins at row 2
    moved = np.zeros_like(table)
    moved[:first] = table[:first]
    moved[first + length :] = table[first : len(table) - length]
    module = model.module_of(POSITIONS)
    return PeftForm(
        {"modules_to_save": [module.rpartition(".")[2]]}, {f"base_model.{module}.weight": moved}
    )
