"""Run a module within limits.

Usage: `python -m adaptlab_worker.confinement.confined LIMITS MODULE ARGUMENT …`.

The limits are set before the module is loaded, so before torch starts a thread.
"""

import runpy
import sys

from adaptlab_worker.confinement.confinement import TrainerLimits, confine


def main(arguments: list[str]) -> None:
    """Confine this process, then run the module in it."""
    limits, module, *module_arguments = arguments
    confine(TrainerLimits.model_validate_json(limits))
    sys.argv = [module, *module_arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
