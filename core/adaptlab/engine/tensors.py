"""Types of tensors with their shapes, as in `Float[Tensor, "R B T V"]`.

Here each is `Annotated`: nothing is checked, and no library is needed. Tests replace them by the
types of jaxtyping, under which every annotated call is checked (`tests/shapes.py`).
"""

from typing import Annotated as Bool
from typing import Annotated as Float
from typing import Annotated as Int
from typing import Annotated as Shaped
from typing import Annotated as UInt8

__all__ = ["Bool", "Float", "Int", "Shaped", "UInt8"]
