"""Creation and preview of studies by the name of a recipe."""

from sqlalchemy.orm import Session

from adaptlab.reproductions.recipe_study import RecipeRequest
from adaptlab_answers.studies import StudyPreview
from adaptlab_services.people import idempotency
from adaptlab_services.people.tokens import Principal
from adaptlab_services.recipes import recipes
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Changed, Rules


def create(
    session: Session,
    principal: Principal,
    request: RecipeRequest,
    rules: Rules,
    *,
    idempotency_key: str | None = None,
) -> Changed:
    """Create the study of a recipe and store its reference to the recipe.

    If the request gives no name and the recipe's is taken, a number is appended.

    Raises:
        UnknownName: there is no such recipe.
        InvalidSpec: the study cannot be run.
        Conflict, IdempotencyMismatch: as for studies.
    """
    if idempotency_key is not None:
        digest = idempotency.request_digest(session, request)
        earlier = idempotency.answered(session, principal.user_id, idempotency_key, digest)
        if earlier is not None:
            return Changed(studies.get(session, str(earlier)), replayed=True, queues=())
    requested = recipes.requested(session, request)
    return studies.create(
        session,
        principal,
        requested.spec,
        rules,
        idempotency_key=idempotency_key,
        recipe=requested.recipe,
        asked=request,
    )


def preview(session: Session, request: RecipeRequest, rules: Rules) -> StudyPreview:
    """Run every check of a creation and return what would be created."""
    return studies.preview(session, recipes.requested(session, request).spec, rules)
