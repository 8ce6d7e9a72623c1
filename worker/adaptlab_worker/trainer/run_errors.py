"""Errors of runs that would be raised again, or break a trainer.

An error that would be raised again is not retried: each attempt would cost everybody its time. A
trainer whose device failed is replaced; one that raised an error of Python serves the next job.
"""

from adaptlab.errors import AdaptlabError

OF_CODE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, NotImplementedError,
    RecursionError, TypeError, ValueError,
)  # fmt: skip
"""Errors that follow from a job and the code alone."""
OF_SURROUNDINGS = (
    "can't start new thread", "temporarily unavailable", "shared memory object", "timed out",
)  # fmt: skip
"""Words of a plain `RuntimeError` that do not follow from the job."""
OF_DEVICES = ("cuda", "cudnn", "cublas", "nccl", "hip error", "accelerator")
DEVICE_ERRORS = frozenset({"AcceleratorError", "OutOfMemoryError"})


def would_repeat(error: BaseException) -> bool:
    """Return True if the same code would raise an error again."""
    if isinstance(error, OSError) or breaks_trainer(error):
        return False
    if type(error) is RuntimeError:  # of torch, such as shapes that do not fit
        return not any(words in str(error).lower() for words in OF_SURROUNDINGS)
    return isinstance(error, (AdaptlabError, *OF_CODE))


def breaks_trainer(error: BaseException) -> bool:
    """Return True if a device may be left in a state that fails the next run."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & DEVICE_ERRORS:
        return True
    return isinstance(error, RuntimeError) and any(w in str(error).lower() for w in OF_DEVICES)
