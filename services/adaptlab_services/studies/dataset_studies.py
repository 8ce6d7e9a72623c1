"""The study that is proposed for a dataset, to be changed and created."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab.studies.plan_fitting import fitted
from adaptlab.studies.study import StudySpec
from adaptlab.studies.study_drafts import (
    USUAL_SEEDS,
    DraftBase,
    NoDraft,
    StudyDraft,
    new_base_for_texts,
    usual_draft,
)
from adaptlab.text.fitting import roles_of
from adaptlab_answers.models import BaseModelView
from adaptlab_services.models import datasets
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules


def proposed(
    session: Session, dataset: str, bases: Sequence[BaseModelView], name: str
) -> StudyDraft | None:
    """Return the study that is proposed for a dataset, or None.

    Its base model is the first that suits, or a small one that the study pretrains. For images and
    for words none is proposed.

    Args:
        session: the unit of work.
        dataset: the name of the dataset.
        bases: the base models to choose from, the preferred one first.
        name: the name of the study.

    Raises:
        Absent: no project, or several other projects, have such a dataset.
    """
    facts = datasets.records_facts(session, dataset)
    roles = None if facts is None else roles_of(facts)
    if facts is None or roles is None or roles.task == "image_classification":
        return None
    known = (DraftBase.of(one.name, one.parameters, one.family, one.task) for one in bases)
    suited = (base for base in known if base.suits(texts=True) and base.reads_texts)
    try:
        base = next(suited, None) or new_base_for_texts(facts, roles, USUAL_SEEDS)
    except NoDraft:
        return None
    return usual_draft(name, datasets.task_for(facts, roles, base), base, facts)


def that_fits(session: Session, draft: StudyDraft, minutes: float, rules: Rules) -> StudyDraft:
    """Return the draft with the most effort whose plan fits a time.

    Raises:
        NoDraft: no plan fits; with the minutes that one takes.
    """

    def seconds_of(tried: StudyDraft) -> float:
        spec = StudySpec.model_validate(tried.document())
        try:
            return studies.preview(session, spec, rules).seconds
        except InvalidSpec as error:
            raise NoDraft(" ".join(one.detail for one in error.problems)) from error

    return fitted(draft, minutes, 1, seconds_of, may_drop=True).draft
