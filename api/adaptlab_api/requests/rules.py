"""What every route needs of who asks; a route that is not here is closed to everybody.

This is the first of two checks. It asks for a role in any project that the request sees; whether
it is one in the right project, and whose the thing is, is for the service that changes it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from fastapi import Request

from adaptlab_api.answers.problems import FORBIDDEN, Refused
from adaptlab_services.errors import Unauthorised
from adaptlab_services.people.access import CEILINGS, Access, Role, is_at_least
from adaptlab_services.people.tokens import WORKER, Principal

Rule = Literal["person", "reader", "submitter", "operator", "admin", "worker"]
"""`person` is anybody with a token that is not a worker's; `admin` is one of the whole server;
`worker` is no role: it is a token with that scope, and no other opens these routes."""

_BY_RULE: Mapping[Rule, str] = MappingProxyType({
    "person": """
        get_description logout
        list_projects list_tokens create_token revoke_token get_me tokens_page""",
    "reader": """
        list_jobs get_job list_events get_metrics get_replicates get_attempts get_evaluations
        get_outcomes get_checkpoints get_theory list_maps get_map_content get_checkpoint
        get_checkpoint_content list_base_models get_base_model list_datasets get_dataset
        get_dataset_content list_methods get_method list_tasks get_task list_families get_family
        solve_budget recommend
        list_studies get_study list_study_jobs get_study_comparison get_comparison
        get_study_bundle
        list_recipes get_recipe get_study_report list_workers get_capabilities
        list_results list_heads list_result_fields list_head_fields list_curves
        list_members put_member delete_member
        jobs_page base_models_page methods_page one_job learning_curves attention studies_page
        attention_page attention_difference attention_step attention_heads
        one_base_model tasks_page families_page one_method one_task recommend_page
        one_study study_charts compare compare_charts recipes_page one_recipe workers_page
        new_job_page preview_new_job new_study_page preview_new_study""",
    "submitter": """
        create_job cancel_job pause_job resume_job retry_job control_job submit_recommended
        create_job_token
        submit_job submit_study
        upload_dataset create_study cancel_study extend_study clone_study run_recipe
        begin_upload list_uploads get_upload put_upload_chunk complete_upload delete_upload""",
    "worker": """
        register_worker stand_back say_goodbye
        claim_job heartbeat record_results end_lease put_lease_artifact get_lease_artifact""",
    "admin": """
        list_users create_user update_user create_project list_audit_entries get_storage""",
})  # fmt: skip
RULES: Mapping[str, Rule] = MappingProxyType(
    {name: rule for rule, names in _BY_RULE.items() for name in names.split()}
)
"""The rule of every route, by its name, which is the operation's in the description."""


def may_call(request: Request, route: str) -> None:
    """Raise `Refused` unless whoever asks has the role that the route of this name needs."""
    rule = RULES.get(route)
    if rule is None:
        raise Refused(FORBIDDEN, "Nobody may call this: the server has no rule for it.")
    who, found = request.state.principal, access_of(request)
    assert isinstance(who, Principal)
    if rule == "worker":
        if WORKER not in who.scopes:
            raise Refused(
                FORBIDDEN, "This is for workers: it needs a token with the scope `worker`."
            )
        return
    if not set(who.scopes) & set(CEILINGS):
        raise Refused(
            FORBIDDEN, "This token is a worker's, which opens its leases alone; take one of yours."
        )
    if rule == "person" or _has(found, rule):
        return
    raise Refused(FORBIDDEN, _lacking(who, rule))


def lacks_to_submit(request: Request) -> str | None:
    """What whoever asks lacks to submit anything, in words; None for who may."""
    if _has(access_of(request), "submitter"):
        return None
    return _lacking(request.state.principal, "submitter")


def access_of(request: Request) -> Access:
    """What the asker may see and do, as the gate has found out; raises `Unauthorised`."""
    found = getattr(request.state, "access", None)
    if not isinstance(found, Access):
        raise Unauthorised
    return found


def _has(found: Access, rule: Role) -> bool:
    return found.is_admin if rule == "admin" else is_at_least(found.highest(), rule)


def _lacking(who: Principal, rule: Role) -> str:
    scope = {"reader": "read", "submitter": "submit", "operator": "submit"}.get(rule, "admin")
    if not set(who.scopes) & {scope, "submit" if scope == "read" else scope, "admin"}:
        return f"This needs a token with the scope `{scope}`; make one, or ask an admin."
    if rule == "admin":
        return "Only an admin of the server may do this."
    return f"This needs the role `{rule}` in a project; ask an admin of it."
