"""Settings source for secrets in files, which `ADAPTLAB_…_FILE` name."""

import os
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from adaptlab_db.secret_files import secret

SECRETS = (
    "database_url",
    "broker_url",
    "s3_access_key_id",
    "s3_secret_access_key",
    "hub_token_key",
)


class SecretFiles(PydanticBaseSettingsSource):
    """The secret settings that are in files, read when settings are built."""

    def __init__(self, settings: type[BaseSettings], prefix: str) -> None:
        super().__init__(settings)
        self._prefix = prefix

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the file's content for a setting; the base class requires `Any`."""
        if field_name not in SECRETS:
            return None, field_name, False
        return secret(os.environ, f"{self._prefix}{field_name.upper()}"), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the values of all settings that a file contains."""
        values = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in values.items() if value is not None}
