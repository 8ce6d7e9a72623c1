"""Studies that are asked for by the name of a recipe: create, and say what would be created."""

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
    """Store the study of a recipe and remember which it was.

    A name that was not asked for is numbered where it is taken. Raises `UnknownName` and
    `InvalidSpec` for what cannot be run, and `Conflict` and `IdempotencyMismatch` as studies do.
    """
    if idempotency_key is not None:
        digest = idempotency.request_digest(session, request)
        earlier = idempotency.answered(session, principal.user_id, idempotency_key, digest)
        if earlier is not None:
            return Changed(studies.get(session, str(earlier)), replayed=True, queues=())
    found = recipes.requested(session, request)
    return studies.create(
        session,
        principal,
        found.spec,
        rules,
        idempotency_key=idempotency_key,
        recipe=found.recipe,
        asked=request,
    )


def preview(session: Session, request: RecipeRequest, rules: Rules) -> StudyPreview:
    """Run every check of a creation and say what would become of the study of a recipe."""
    return studies.preview(session, recipes.requested(session, request).spec, rules)
