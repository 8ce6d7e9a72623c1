"""What people and programs use: the Python client and the command line `adaptlab`.

Knows only the torch-free half of core, and reaches everything else over HTTP.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adaptlab_client.answers import Attempt as Attempt
    from adaptlab_client.answers import BaseModelEntry as BaseModelEntry
    from adaptlab_client.answers import Budget as Budget
    from adaptlab_client.answers import BudgetAnswer as BudgetAnswer
    from adaptlab_client.answers import Checkpoint as Checkpoint
    from adaptlab_client.answers import Curve as Curve
    from adaptlab_client.answers import DatasetEntry as DatasetEntry
    from adaptlab_client.answers import Estimate as Estimate
    from adaptlab_client.answers import Evaluation as Evaluation
    from adaptlab_client.answers import Job as Job
    from adaptlab_client.answers import JobEvent as JobEvent
    from adaptlab_client.answers import JobSummary as JobSummary
    from adaptlab_client.answers import MethodEntry as MethodEntry
    from adaptlab_client.answers import Outcomes as Outcomes
    from adaptlab_client.answers import PlugIn as PlugIn
    from adaptlab_client.answers import Preview as Preview
    from adaptlab_client.answers import Progress as Progress
    from adaptlab_client.answers import Replicate as Replicate
    from adaptlab_client.answers import Solved as Solved
    from adaptlab_client.answers import TheoryCheck as TheoryCheck
    from adaptlab_client.answers import UploadEntry as UploadEntry
    from adaptlab_client.answers import Usage as Usage
    from adaptlab_client.attention_answers import AttentionMap as AttentionMap
    from adaptlab_client.attention_answers import AttentionMaps as AttentionMaps
    from adaptlab_client.attention_answers import HeadSummary as HeadSummary
    from adaptlab_client.client import Client as Client
    from adaptlab_client.comparison_answers import Comparison as Comparison
    from adaptlab_client.comparison_answers import Diagnosis as Diagnosis
    from adaptlab_client.comparison_answers import JobComparison as JobComparison
    from adaptlab_client.comparison_answers import StudyComparison as StudyComparison
    from adaptlab_client.comparison_answers import TableComparison as TableComparison
    from adaptlab_client.comparison_answers import Verdict as Verdict
    from adaptlab_client.connection import Retries as Retries
    from adaptlab_client.curves import Curves as Curves
    from adaptlab_client.errors import ApiError as ApiError
    from adaptlab_client.errors import Conflict as Conflict
    from adaptlab_client.errors import DigestMismatch as DigestMismatch
    from adaptlab_client.errors import InvalidRequest as InvalidRequest
    from adaptlab_client.errors import NoServer as NoServer
    from adaptlab_client.errors import NotFound as NotFound
    from adaptlab_client.errors import ServerUnavailable as ServerUnavailable
    from adaptlab_client.errors import ServerUnreachable as ServerUnreachable
    from adaptlab_client.errors import SeveralMaps as SeveralMaps
    from adaptlab_client.errors import TooLarge as TooLarge
    from adaptlab_client.errors import TooManyRequests as TooManyRequests
    from adaptlab_client.errors import Unauthorised as Unauthorised
    from adaptlab_client.errors import UnexpectedAnswer as UnexpectedAnswer
    from adaptlab_client.errors import UnsafeFile as UnsafeFile
    from adaptlab_client.errors import WaitTimedOut as WaitTimedOut
    from adaptlab_client.people_answers import AuditEntry as AuditEntry
    from adaptlab_client.people_answers import Me as Me
    from adaptlab_client.people_answers import MemberEntry as MemberEntry
    from adaptlab_client.people_answers import NewToken as NewToken
    from adaptlab_client.people_answers import ProjectEntry as ProjectEntry
    from adaptlab_client.people_answers import QueueUse as QueueUse
    from adaptlab_client.people_answers import Quotas as Quotas
    from adaptlab_client.people_answers import TokenEntry as TokenEntry
    from adaptlab_client.people_answers import UserEntry as UserEntry
    from adaptlab_client.people_answers import UserUsage as UserUsage
    from adaptlab_client.pictures import Picture as Picture
    from adaptlab_client.recipe_answers import ClaimVerdict as ClaimVerdict
    from adaptlab_client.recipe_answers import Recipe as Recipe
    from adaptlab_client.recipe_answers import RecipeReport as RecipeReport
    from adaptlab_client.recipe_answers import RecipeSummary as RecipeSummary
    from adaptlab_client.recipe_answers import ReportCell as ReportCell
    from adaptlab_client.recipe_answers import ReportRow as ReportRow
    from adaptlab_client.recipe_answers import ReportTable as ReportTable
    from adaptlab_client.recommendation_answers import Recommendation as Recommendation
    from adaptlab_client.result_answers import ResultField as ResultField
    from adaptlab_client.result_answers import ResultTable as ResultTable
    from adaptlab_client.server_answers import Capabilities as Capabilities
    from adaptlab_client.server_answers import Health as Health
    from adaptlab_client.server_answers import Limits as Limits
    from adaptlab_client.server_answers import Storage as Storage
    from adaptlab_client.server_answers import StoredShare as StoredShare
    from adaptlab_client.server_answers import WorkerEntry as WorkerEntry
    from adaptlab_client.study_answers import PlannedBase as PlannedBase
    from adaptlab_client.study_answers import PlannedCell as PlannedCell
    from adaptlab_client.study_answers import PlannedCheck as PlannedCheck
    from adaptlab_client.study_answers import PlannedJob as PlannedJob
    from adaptlab_client.study_answers import RecipeRef as RecipeRef
    from adaptlab_client.study_answers import SkippedCell as SkippedCell
    from adaptlab_client.study_answers import Study as Study
    from adaptlab_client.study_answers import StudyBase as StudyBase
    from adaptlab_client.study_answers import StudyCell as StudyCell
    from adaptlab_client.study_answers import StudyCheck as StudyCheck
    from adaptlab_client.study_answers import StudyJob as StudyJob
    from adaptlab_client.study_answers import StudyPreview as StudyPreview
    from adaptlab_client.study_run import StudyRun as StudyRun

_HOMES = {
    "ApiError": "errors",
    "Attempt": "answers",
    "AttentionMap": "attention_answers",
    "AttentionMaps": "attention_answers",
    "AuditEntry": "people_answers",
    "BaseModelEntry": "answers",
    "Budget": "answers",
    "BudgetAnswer": "answers",
    "Capabilities": "server_answers",
    "Checkpoint": "answers",
    "ClaimVerdict": "recipe_answers",
    "Client": "client",
    "Comparison": "comparison_answers",
    "Conflict": "errors",
    "Curve": "answers",
    "Curves": "curves",
    "DatasetEntry": "answers",
    "Diagnosis": "comparison_answers",
    "DigestMismatch": "errors",
    "Estimate": "answers",
    "Evaluation": "answers",
    "HeadSummary": "attention_answers",
    "Health": "server_answers",
    "InvalidRequest": "errors",
    "Job": "answers",
    "JobComparison": "comparison_answers",
    "JobEvent": "answers",
    "JobSummary": "answers",
    "Limits": "server_answers",
    "Me": "people_answers",
    "MemberEntry": "people_answers",
    "MethodEntry": "answers",
    "NewToken": "people_answers",
    "NoServer": "errors",
    "NotFound": "errors",
    "Outcomes": "answers",
    "Picture": "pictures",
    "PlannedBase": "study_answers",
    "PlannedCell": "study_answers",
    "PlannedCheck": "study_answers",
    "PlannedJob": "study_answers",
    "PlugIn": "answers",
    "Preview": "answers",
    "Progress": "answers",
    "ProjectEntry": "people_answers",
    "QueueUse": "people_answers",
    "Quotas": "people_answers",
    "Recipe": "recipe_answers",
    "RecipeRef": "study_answers",
    "RecipeReport": "recipe_answers",
    "RecipeSummary": "recipe_answers",
    "Recommendation": "recommendation_answers",
    "Replicate": "answers",
    "ReportCell": "recipe_answers",
    "ReportRow": "recipe_answers",
    "ReportTable": "recipe_answers",
    "ResultField": "result_answers",
    "ResultTable": "result_answers",
    "Retries": "connection",
    "ServerUnavailable": "errors",
    "ServerUnreachable": "errors",
    "SeveralMaps": "errors",
    "SkippedCell": "study_answers",
    "Solved": "answers",
    "Storage": "server_answers",
    "StoredShare": "server_answers",
    "Study": "study_answers",
    "StudyBase": "study_answers",
    "StudyCell": "study_answers",
    "StudyCheck": "study_answers",
    "StudyComparison": "comparison_answers",
    "StudyJob": "study_answers",
    "StudyPreview": "study_answers",
    "StudyRun": "study_run",
    "TableComparison": "comparison_answers",
    "TheoryCheck": "answers",
    "TokenEntry": "people_answers",
    "TooLarge": "errors",
    "TooManyRequests": "errors",
    "Unauthorised": "errors",
    "UnexpectedAnswer": "errors",
    "UnsafeFile": "errors",
    "UploadEntry": "answers",
    "Usage": "answers",
    "UserEntry": "people_answers",
    "UserUsage": "people_answers",
    "Verdict": "comparison_answers",
    "WaitTimedOut": "errors",
    "WorkerEntry": "server_answers",
}

__all__ = [
    "ApiError",
    "Attempt",
    "AttentionMap",
    "AttentionMaps",
    "AuditEntry",
    "BaseModelEntry",
    "Budget",
    "BudgetAnswer",
    "Capabilities",
    "Checkpoint",
    "ClaimVerdict",
    "Client",
    "Comparison",
    "Conflict",
    "Curve",
    "Curves",
    "DatasetEntry",
    "Diagnosis",
    "DigestMismatch",
    "Estimate",
    "Evaluation",
    "HeadSummary",
    "Health",
    "InvalidRequest",
    "Job",
    "JobComparison",
    "JobEvent",
    "JobSummary",
    "Limits",
    "Me",
    "MemberEntry",
    "MethodEntry",
    "NewToken",
    "NoServer",
    "NotFound",
    "Outcomes",
    "Picture",
    "PlannedBase",
    "PlannedCell",
    "PlannedCheck",
    "PlannedJob",
    "PlugIn",
    "Preview",
    "Progress",
    "ProjectEntry",
    "QueueUse",
    "Quotas",
    "Recipe",
    "RecipeRef",
    "RecipeReport",
    "RecipeSummary",
    "Recommendation",
    "Replicate",
    "ReportCell",
    "ReportRow",
    "ReportTable",
    "ResultField",
    "ResultTable",
    "Retries",
    "ServerUnavailable",
    "ServerUnreachable",
    "SeveralMaps",
    "SkippedCell",
    "Solved",
    "Storage",
    "StoredShare",
    "Study",
    "StudyBase",
    "StudyCell",
    "StudyCheck",
    "StudyComparison",
    "StudyJob",
    "StudyPreview",
    "StudyRun",
    "TableComparison",
    "TheoryCheck",
    "TokenEntry",
    "TooLarge",
    "TooManyRequests",
    "Unauthorised",
    "UnexpectedAnswer",
    "UnsafeFile",
    "UploadEntry",
    "Usage",
    "UserEntry",
    "UserUsage",
    "Verdict",
    "WaitTimedOut",
    "WorkerEntry",
]


def homes() -> dict[str, str]:
    """The public names, and the modules that hold them."""
    return dict(_HOMES)


def __getattr__(name: str) -> object:
    """Load a public name when it is asked for: `adaptlab --help` has no use for httpx."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"adaptlab_client.{_HOMES[name]}"), name)
