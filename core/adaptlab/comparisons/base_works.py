"""The warning about a base model that works without being adapted."""

from adaptlab.comparisons.comparison_warnings import ComparisonWarning
from adaptlab.figures import percent


def base_works_alone(
    accuracy: float, failing_below: float, chance: float
) -> ComparisonWarning | None:
    """Return a warning if the base model alone scores as what works.

    `accuracy` is its mean over the jobs compared, `failing_below` the rule of their table. A method
    that leaves the model as it is would "work" as well.
    """
    if accuracy < failing_below:
        return None
    text = (
        f"The base model alone scores {percent(accuracy)} on this task. Everything from "
        f"{percent(failing_below)} on counts as working, because scores are compared with guessing "
        f"({percent(chance)}), so a method can work without having changed anything. The page of "
        "each job shows the change from the base model alone."
    )
    return ComparisonWarning(kind="base_works_alone", text=text)
