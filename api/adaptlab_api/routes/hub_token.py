"""`/v1/hub-token`: the caller's token of the hub, which nobody can read."""

from typing import Annotated

from starlette.responses import Response

from adaptlab_answers.hub import HubTokenView
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, SubmitterDep, UnitsDep
from adaptlab_api.requests.describing import WITH_BODY, failures
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.hub import hub_tokens
from adaptlab_services.hub.hub_tokens import NewHubToken

router = api_router("/hub-token", tag="model folders")


@router.put("", response_model=HubTokenView, responses=failures(*WITH_BODY))
@needs("submitter")
def set_hub_token(
    body: Annotated[Body[NewHubToken], json_body(NewHubToken)],
    units: UnitsDep,
    who: SubmitterDep,
    opened: ResourcesDep,
) -> Response:
    """Store your token of the hub, for what is private or gated, in place of an earlier one.

    The hub is asked whose it is; one that it does not know is refused.
    """
    new = body.read()
    account = hub_tokens.account_of(new, opened.settings)  # outside of a unit of work: it is slow
    with units() as session:
        return json_answer(hub_tokens.store(session, who, new, account, opened.settings))


@router.get("", response_model=HubTokenView, responses=failures())
@needs("submitter")
def get_hub_token(session: SessionDep, who: SubmitterDep, opened: ResourcesDep) -> Response:
    """Get whether you have stored a token, when, and whose it is; never the token."""
    return json_answer(hub_tokens.look(session, who, opened.settings))


@router.delete("", status_code=204, responses=failures())
@needs("submitter")
def delete_hub_token(session: SessionDep, who: SubmitterDep, opened: ResourcesDep) -> Response:
    """Delete your token of the hub; safe to repeat."""
    hub_tokens.remove(session, who, opened.settings)
    return Response(status_code=204, headers=NO_STORE)
