"""The rotation of a sphere as a job's check."""

from collections.abc import Iterable

from adaptlab.runs.theory_report import Check
from adaptlab.theory.identities import ANGLES, FRAMES
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.rotation import plane_rotation, rotation_on_a_sphere, sphere_points
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.rotation import Rotation


@MEASURES.register("rotation")
def measure(check: Rotation, subject: Subject) -> Iterable[Check]:
    """Check one rotation, in as many planes as angles fit."""
    seed = subject.seed
    angles = ANGLES[: check.dimensions // 2 - 1]
    rotation = plane_rotation(check.dimensions, angles, seed)
    return rotation_on_a_sphere(rotation, sphere_points(check.dimensions, FRAMES, seed), seed)
