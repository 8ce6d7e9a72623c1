"""Points in time in answers."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator

Moment = Annotated[datetime, AfterValidator(lambda moment: moment.astimezone(UTC))]
"""A point in time in UTC, whatever the database session's time zone."""
