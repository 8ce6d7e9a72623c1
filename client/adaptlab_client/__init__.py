"""The Python client and the command line `adaptlab`.

Imports only the answers and the torch-free half of core; everything else goes over HTTP.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adaptlab.comparisons.comparison import Comparison as Comparison
    from adaptlab.comparisons.diagnosis import Diagnosis as Diagnosis
    from adaptlab.comparisons.table_comparison import TableComparison as TableComparison
    from adaptlab.comparisons.verdict import Verdict as Verdict
    from adaptlab.reproductions.claim_verdicts import ClaimVerdict as ClaimVerdict
    from adaptlab.reproductions.recipe import RecipeRef as RecipeRef
    from adaptlab.reproductions.recipe_report import EffortRow as EffortRow
    from adaptlab.reproductions.recipe_report import ReportCell as ReportCell
    from adaptlab.reproductions.recipe_report import ReportTable as ReportTable
    from adaptlab.runs.events import AttentionSummary as AttentionSummary
    from adaptlab.runs.events import ReplicateResult as ReplicateResult
    from adaptlab.runs.events import Usage as Usage
    from adaptlab.runs.theory_report import Check as Check
    from adaptlab.specs.budget import BudgetVector as BudgetVector
    from adaptlab.studies.study_plan import SkippedCell as SkippedCell
    from adaptlab_answers.jobs import Estimate as Estimate
    from adaptlab_answers.jobs import EventView as EventView
    from adaptlab_answers.jobs import JobSummary as JobSummary
    from adaptlab_answers.jobs import JobView as JobView
    from adaptlab_answers.jobs import Preview as Preview
    from adaptlab_answers.jobs import ProgressNews as ProgressNews
    from adaptlab_answers.jobs import RunProgress as RunProgress
    from adaptlab_answers.models import BaseModelView as BaseModelView
    from adaptlab_answers.models import BudgetAnswer as BudgetAnswer
    from adaptlab_answers.models import DatasetView as DatasetView
    from adaptlab_answers.models import MethodAnswer as MethodAnswer
    from adaptlab_answers.models import MethodEntry as MethodEntry
    from adaptlab_answers.models import PlugIn as PlugIn
    from adaptlab_answers.people import AuditView as AuditView
    from adaptlab_answers.people import CreatedToken as CreatedToken
    from adaptlab_answers.people import Me as Me
    from adaptlab_answers.people import MemberView as MemberView
    from adaptlab_answers.people import ProjectView as ProjectView
    from adaptlab_answers.people import QueueUse as QueueUse
    from adaptlab_answers.people import Quotas as Quotas
    from adaptlab_answers.people import TokenView as TokenView
    from adaptlab_answers.people import UserUsage as UserUsage
    from adaptlab_answers.people import UserView as UserView
    from adaptlab_answers.queries import FieldView as FieldView
    from adaptlab_answers.recipes import RecipeSummary as RecipeSummary
    from adaptlab_answers.recipes import RecipeView as RecipeView
    from adaptlab_answers.recipes import StudyReport as StudyReport
    from adaptlab_answers.recommendations import Recommendation as Recommendation
    from adaptlab_answers.results import AttemptView as AttemptView
    from adaptlab_answers.results import CheckpointView as CheckpointView
    from adaptlab_answers.results import Curve as Curve
    from adaptlab_answers.results import EvaluationView as EvaluationView
    from adaptlab_answers.results import OutcomeList as OutcomeList
    from adaptlab_answers.server import Capabilities as Capabilities
    from adaptlab_answers.server import Health as Health
    from adaptlab_answers.server import Limits as Limits
    from adaptlab_answers.server import WorkerView as WorkerView
    from adaptlab_answers.storage import StorageStatus as StorageStatus
    from adaptlab_answers.storage import StoredShare as StoredShare
    from adaptlab_answers.storage import UploadView as UploadView
    from adaptlab_answers.studies import PlannedBase as PlannedBase
    from adaptlab_answers.studies import PlannedCell as PlannedCell
    from adaptlab_answers.studies import PlannedCheckView as PlannedCheckView
    from adaptlab_answers.studies import PlannedJobView as PlannedJobView
    from adaptlab_answers.studies import StudyBase as StudyBase
    from adaptlab_answers.studies import StudyCell as StudyCell
    from adaptlab_answers.studies import StudyCheckView as StudyCheckView
    from adaptlab_answers.studies import StudyJobView as StudyJobView
    from adaptlab_answers.studies import StudyPreview as StudyPreview
    from adaptlab_answers.studies import StudySummary as StudySummary
    from adaptlab_answers.studies import StudyView as StudyView
    from adaptlab_client.client import Client as Client
    from adaptlab_client.display.attention_maps import AttentionMap as AttentionMap
    from adaptlab_client.display.attention_maps import AttentionMaps as AttentionMaps
    from adaptlab_client.display.comparison_tables import JobComparison as JobComparison
    from adaptlab_client.display.comparison_tables import StudyComparison as StudyComparison
    from adaptlab_client.display.curves import Curves as Curves
    from adaptlab_client.display.pictures import Picture as Picture
    from adaptlab_client.display.result_table import ResultTable as ResultTable
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
    from adaptlab_client.resources.study_run import StudyRun as StudyRun
    from adaptlab_client.transport.connection import Retries as Retries

_HOMES = {
    "ApiError": "adaptlab_client.errors",
    "AttemptView": "adaptlab_answers.results",
    "AttentionMap": "adaptlab_client.display.attention_maps",
    "AttentionMaps": "adaptlab_client.display.attention_maps",
    "AttentionSummary": "adaptlab.runs.events",
    "AuditView": "adaptlab_answers.people",
    "BaseModelView": "adaptlab_answers.models",
    "BudgetAnswer": "adaptlab_answers.models",
    "BudgetVector": "adaptlab.specs.budget",
    "Capabilities": "adaptlab_answers.server",
    "Check": "adaptlab.runs.theory_report",
    "CheckpointView": "adaptlab_answers.results",
    "ClaimVerdict": "adaptlab.reproductions.claim_verdicts",
    "Client": "adaptlab_client.client",
    "Comparison": "adaptlab.comparisons.comparison",
    "Conflict": "adaptlab_client.errors",
    "CreatedToken": "adaptlab_answers.people",
    "Curve": "adaptlab_answers.results",
    "Curves": "adaptlab_client.display.curves",
    "DatasetView": "adaptlab_answers.models",
    "Diagnosis": "adaptlab.comparisons.diagnosis",
    "DigestMismatch": "adaptlab_client.errors",
    "Estimate": "adaptlab_answers.jobs",
    "EvaluationView": "adaptlab_answers.results",
    "EventView": "adaptlab_answers.jobs",
    "FieldView": "adaptlab_answers.queries",
    "Health": "adaptlab_answers.server",
    "InvalidRequest": "adaptlab_client.errors",
    "JobComparison": "adaptlab_client.display.comparison_tables",
    "JobSummary": "adaptlab_answers.jobs",
    "JobView": "adaptlab_answers.jobs",
    "Limits": "adaptlab_answers.server",
    "Me": "adaptlab_answers.people",
    "MemberView": "adaptlab_answers.people",
    "MethodAnswer": "adaptlab_answers.models",
    "MethodEntry": "adaptlab_answers.models",
    "NoServer": "adaptlab_client.errors",
    "NotFound": "adaptlab_client.errors",
    "OutcomeList": "adaptlab_answers.results",
    "Picture": "adaptlab_client.display.pictures",
    "PlannedBase": "adaptlab_answers.studies",
    "PlannedCell": "adaptlab_answers.studies",
    "PlannedCheckView": "adaptlab_answers.studies",
    "PlannedJobView": "adaptlab_answers.studies",
    "PlugIn": "adaptlab_answers.models",
    "Preview": "adaptlab_answers.jobs",
    "RunProgress": "adaptlab_answers.jobs",
    "ProgressNews": "adaptlab_answers.jobs",
    "ProjectView": "adaptlab_answers.people",
    "QueueUse": "adaptlab_answers.people",
    "Quotas": "adaptlab_answers.people",
    "RecipeRef": "adaptlab.reproductions.recipe",
    "RecipeSummary": "adaptlab_answers.recipes",
    "RecipeView": "adaptlab_answers.recipes",
    "Recommendation": "adaptlab_answers.recommendations",
    "ReplicateResult": "adaptlab.runs.events",
    "ReportCell": "adaptlab.reproductions.recipe_report",
    "EffortRow": "adaptlab.reproductions.recipe_report",
    "ReportTable": "adaptlab.reproductions.recipe_report",
    "ResultTable": "adaptlab_client.display.result_table",
    "Retries": "adaptlab_client.transport.connection",
    "ServerUnavailable": "adaptlab_client.errors",
    "ServerUnreachable": "adaptlab_client.errors",
    "SeveralMaps": "adaptlab_client.errors",
    "SkippedCell": "adaptlab.studies.study_plan",
    "StorageStatus": "adaptlab_answers.storage",
    "StoredShare": "adaptlab_answers.storage",
    "StudyBase": "adaptlab_answers.studies",
    "StudyCell": "adaptlab_answers.studies",
    "StudyCheckView": "adaptlab_answers.studies",
    "StudyComparison": "adaptlab_client.display.comparison_tables",
    "StudyJobView": "adaptlab_answers.studies",
    "StudyPreview": "adaptlab_answers.studies",
    "StudyReport": "adaptlab_answers.recipes",
    "StudyRun": "adaptlab_client.resources.study_run",
    "StudySummary": "adaptlab_answers.studies",
    "StudyView": "adaptlab_answers.studies",
    "TableComparison": "adaptlab.comparisons.table_comparison",
    "TokenView": "adaptlab_answers.people",
    "TooLarge": "adaptlab_client.errors",
    "TooManyRequests": "adaptlab_client.errors",
    "Unauthorised": "adaptlab_client.errors",
    "UnexpectedAnswer": "adaptlab_client.errors",
    "UnsafeFile": "adaptlab_client.errors",
    "UploadView": "adaptlab_answers.storage",
    "Usage": "adaptlab.runs.events",
    "UserUsage": "adaptlab_answers.people",
    "UserView": "adaptlab_answers.people",
    "Verdict": "adaptlab.comparisons.verdict",
    "WaitTimedOut": "adaptlab_client.errors",
    "WorkerView": "adaptlab_answers.server",
}

__all__ = [
    "ApiError",
    "AttemptView",
    "AttentionMap",
    "AttentionMaps",
    "AttentionSummary",
    "AuditView",
    "BaseModelView",
    "BudgetAnswer",
    "BudgetVector",
    "Capabilities",
    "Check",
    "CheckpointView",
    "ClaimVerdict",
    "Client",
    "Comparison",
    "Conflict",
    "CreatedToken",
    "Curve",
    "Curves",
    "DatasetView",
    "Diagnosis",
    "DigestMismatch",
    "EffortRow",
    "Estimate",
    "EvaluationView",
    "EventView",
    "FieldView",
    "Health",
    "InvalidRequest",
    "JobComparison",
    "JobSummary",
    "JobView",
    "Limits",
    "Me",
    "MemberView",
    "MethodAnswer",
    "MethodEntry",
    "NoServer",
    "NotFound",
    "OutcomeList",
    "Picture",
    "PlannedBase",
    "PlannedCell",
    "PlannedCheckView",
    "PlannedJobView",
    "PlugIn",
    "Preview",
    "ProgressNews",
    "ProjectView",
    "QueueUse",
    "Quotas",
    "RecipeRef",
    "RecipeSummary",
    "RecipeView",
    "Recommendation",
    "ReplicateResult",
    "ReportCell",
    "ReportTable",
    "ResultTable",
    "Retries",
    "RunProgress",
    "ServerUnavailable",
    "ServerUnreachable",
    "SeveralMaps",
    "SkippedCell",
    "StorageStatus",
    "StoredShare",
    "StudyBase",
    "StudyCell",
    "StudyCheckView",
    "StudyComparison",
    "StudyJobView",
    "StudyPreview",
    "StudyReport",
    "StudyRun",
    "StudySummary",
    "StudyView",
    "TableComparison",
    "TokenView",
    "TooLarge",
    "TooManyRequests",
    "Unauthorised",
    "UnexpectedAnswer",
    "UnsafeFile",
    "UploadView",
    "Usage",
    "UserUsage",
    "UserView",
    "Verdict",
    "WaitTimedOut",
    "WorkerView",
]


def homes() -> dict[str, str]:
    """Return the public names and the modules that define them."""
    return dict(_HOMES)


def __getattr__(name: str) -> object:
    """Load a public name on first use: `adaptlab --help` does not need httpx."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
