"""Links with which people without an account read one study."""

from typing import Literal

from adaptlab.values import Value
from adaptlab_answers.moments import Moment


class StudyLinkView(Value):
    """A link to a study without its address, which is returned once."""

    id: int
    name: str
    creator: str
    state: Literal["valid", "expired", "revoked"]
    created_at: Moment
    expires_at: Moment | None
    revoked_at: Moment | None


class CreatedStudyLink(StudyLinkView):
    """A new link with the path of its page, which is not returned again."""

    path: str


class StudyLinkList(Value):
    """The links to a study, newest first."""

    data: tuple[StudyLinkView, ...]
