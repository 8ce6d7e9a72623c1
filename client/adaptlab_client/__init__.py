"""What people and programs use: the Python client and the command line `adaptlab`.

Knows only the torch-free half of core, and reaches everything else over HTTP.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adaptlab_client.answers import Attempt as Attempt
    from adaptlab_client.answers import AttentionMap as AttentionMap
    from adaptlab_client.answers import BaseModelEntry as BaseModelEntry
    from adaptlab_client.answers import Budget as Budget
    from adaptlab_client.answers import BudgetAnswer as BudgetAnswer
    from adaptlab_client.answers import Checkpoint as Checkpoint
    from adaptlab_client.answers import Curve as Curve
    from adaptlab_client.answers import Estimate as Estimate
    from adaptlab_client.answers import Evaluation as Evaluation
    from adaptlab_client.answers import HeadSummary as HeadSummary
    from adaptlab_client.answers import Job as Job
    from adaptlab_client.answers import JobEvent as JobEvent
    from adaptlab_client.answers import MethodEntry as MethodEntry
    from adaptlab_client.answers import PlannedBase as PlannedBase
    from adaptlab_client.answers import PlannedCell as PlannedCell
    from adaptlab_client.answers import PlannedJob as PlannedJob
    from adaptlab_client.answers import PlugIn as PlugIn
    from adaptlab_client.answers import Preview as Preview
    from adaptlab_client.answers import Progress as Progress
    from adaptlab_client.answers import Replicate as Replicate
    from adaptlab_client.answers import SkippedCell as SkippedCell
    from adaptlab_client.answers import Solved as Solved
    from adaptlab_client.answers import Study as Study
    from adaptlab_client.answers import StudyBase as StudyBase
    from adaptlab_client.answers import StudyCell as StudyCell
    from adaptlab_client.answers import StudyJob as StudyJob
    from adaptlab_client.answers import StudyPreview as StudyPreview
    from adaptlab_client.answers import TheoryCheck as TheoryCheck
    from adaptlab_client.answers import Usage as Usage
    from adaptlab_client.client import Client as Client
    from adaptlab_client.comparison_answers import Comparison as Comparison
    from adaptlab_client.comparison_answers import Diagnosis as Diagnosis
    from adaptlab_client.comparison_answers import JobComparison as JobComparison
    from adaptlab_client.comparison_answers import StudyComparison as StudyComparison
    from adaptlab_client.comparison_answers import TableComparison as TableComparison
    from adaptlab_client.comparison_answers import Verdict as Verdict
    from adaptlab_client.connection import Retries as Retries
    from adaptlab_client.errors import ApiError as ApiError
    from adaptlab_client.errors import Conflict as Conflict
    from adaptlab_client.errors import DigestMismatch as DigestMismatch
    from adaptlab_client.errors import InvalidRequest as InvalidRequest
    from adaptlab_client.errors import NoServer as NoServer
    from adaptlab_client.errors import NotFound as NotFound
    from adaptlab_client.errors import ServerUnavailable as ServerUnavailable
    from adaptlab_client.errors import ServerUnreachable as ServerUnreachable
    from adaptlab_client.errors import TooLarge as TooLarge
    from adaptlab_client.errors import Unauthorised as Unauthorised
    from adaptlab_client.errors import UnexpectedAnswer as UnexpectedAnswer
    from adaptlab_client.errors import WaitTimedOut as WaitTimedOut

_HOMES = {
    "ApiError": "errors",
    "Attempt": "answers",
    "AttentionMap": "answers",
    "BaseModelEntry": "answers",
    "Budget": "answers",
    "BudgetAnswer": "answers",
    "Checkpoint": "answers",
    "Client": "client",
    "Comparison": "comparison_answers",
    "Conflict": "errors",
    "Curve": "answers",
    "Diagnosis": "comparison_answers",
    "DigestMismatch": "errors",
    "Estimate": "answers",
    "Evaluation": "answers",
    "HeadSummary": "answers",
    "InvalidRequest": "errors",
    "Job": "answers",
    "JobComparison": "comparison_answers",
    "JobEvent": "answers",
    "MethodEntry": "answers",
    "NoServer": "errors",
    "NotFound": "errors",
    "PlannedBase": "answers",
    "PlannedCell": "answers",
    "PlannedJob": "answers",
    "PlugIn": "answers",
    "Preview": "answers",
    "Progress": "answers",
    "Replicate": "answers",
    "Retries": "connection",
    "ServerUnavailable": "errors",
    "ServerUnreachable": "errors",
    "SkippedCell": "answers",
    "Solved": "answers",
    "Study": "answers",
    "StudyBase": "answers",
    "StudyCell": "answers",
    "StudyComparison": "comparison_answers",
    "StudyJob": "answers",
    "StudyPreview": "answers",
    "TheoryCheck": "answers",
    "TableComparison": "comparison_answers",
    "TooLarge": "errors",
    "Unauthorised": "errors",
    "UnexpectedAnswer": "errors",
    "Usage": "answers",
    "Verdict": "comparison_answers",
    "WaitTimedOut": "errors",
}

__all__ = [
    "ApiError",
    "Attempt",
    "AttentionMap",
    "BaseModelEntry",
    "Budget",
    "BudgetAnswer",
    "Checkpoint",
    "Client",
    "Comparison",
    "Conflict",
    "Curve",
    "Diagnosis",
    "DigestMismatch",
    "Estimate",
    "Evaluation",
    "HeadSummary",
    "InvalidRequest",
    "Job",
    "JobComparison",
    "JobEvent",
    "MethodEntry",
    "NoServer",
    "NotFound",
    "PlannedBase",
    "PlannedCell",
    "PlannedJob",
    "PlugIn",
    "Preview",
    "Progress",
    "Replicate",
    "Retries",
    "ServerUnavailable",
    "ServerUnreachable",
    "SkippedCell",
    "Solved",
    "Study",
    "StudyBase",
    "StudyCell",
    "StudyComparison",
    "StudyJob",
    "StudyPreview",
    "TableComparison",
    "TheoryCheck",
    "TooLarge",
    "Unauthorised",
    "UnexpectedAnswer",
    "Usage",
    "Verdict",
    "WaitTimedOut",
]


def __getattr__(name: str) -> object:
    """Load a public name when it is asked for: `adaptlab --help` has no use for httpx."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"adaptlab_client.{_HOMES[name]}"), name)
