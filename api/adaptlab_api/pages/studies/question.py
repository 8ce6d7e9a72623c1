"""The question of a study on its page: evidence, and what runs next."""

import json
import math
from dataclasses import dataclass

from adaptlab.questions.planning import TableStanding, limits_text
from adaptlab.questions.statements import Standing
from adaptlab.questions.wording import asked_text, spent_text, statement_text
from adaptlab.studies.study import QuestionSpec
from adaptlab_answers.questions import PassView
from adaptlab_answers.studies import StudyView


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A statement with its evidence.

    `share` is the way to the threshold on a logarithmic scale, from 0 at no evidence to 1.
    """

    text: str
    evidence: float
    share: float
    shown: bool
    seeds: int
    needs: int | None


@dataclass(frozen=True, slots=True)
class QuestionOnPage:
    """What is asked and has been spent, what runs, and the evidence."""

    asked: str
    cost: str
    next: tuple[PassView, ...]
    lines: tuple[tuple[EvidenceLine, ...], ...]


def question_on_page(study: StudyView) -> QuestionOnPage | None:
    """Return the question of a study for its page, None if it has none."""
    found = study.question
    if found is None:
        return None
    spec = QuestionSpec.model_validate_json(json.dumps(study.spec["question"]))
    spent = spent_text(found.replicate_steps, len(found.passes), found.fixed_replicate_steps)
    return QuestionOnPage(
        asked=f"{asked_text(spec)}, with at most {limits_text(spec.at_most)}",
        cost=f"So far {spent}",
        next=tuple(one for one in found.passes if one.state == "open"),
        lines=tuple(tuple(map(_line, _standings(table))) for table in found.tables),
    )


def _standings(table: TableStanding) -> list[Standing]:
    """Return the statements that matter, each once.

    Of a settled goal, these are only those of its way.
    """
    ruled_out = list(table.ruled_out)
    for goal in table.goals:
        for way in goal.ways:
            if not goal.settled or all(one.shown for one in way):
                ruled_out += way
    return list({one.statement.model_dump_json(): one for one in ruled_out}.values())


def _line(one: Standing) -> EvidenceLine:
    share = math.log(max(1.0, one.evidence)) / math.log(one.threshold)
    return EvidenceLine(
        text=statement_text(one.statement),
        evidence=one.evidence,
        share=min(1.0, share),
        shown=one.shown,
        seeds=one.seeds,
        needs=one.needs,
    )
