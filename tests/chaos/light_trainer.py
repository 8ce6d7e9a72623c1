"""The trainer process without torch, for the stand-ins of `runners.py`.

It starts in half a second instead of five, so that trainers can be killed by the hundred.
"""

import sys
from types import ModuleType


def _leave_out_torch() -> None:
    def nothing() -> None: ...

    for name in ("allocator", "compiled"):
        module = ModuleType(f"adaptlab.engine.{name}")
        vars(module).update(
            keep_freed_memory=nothing, return_freed_memory=nothing, compile_kernels=nothing
        )
        sys.modules[module.__name__] = module


if __name__ == "__main__":
    _leave_out_torch()
    from adaptlab_worker.trainer.trainer import main

    main(sys.argv[1:])
