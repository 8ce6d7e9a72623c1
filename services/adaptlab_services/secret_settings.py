"""Settings that may stand in files: what `ADAPTLAB_…_FILE` names, for those that are secret."""

import os
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from adaptlab_db.secret_files import secret

SECRETS = ("database_url", "broker_url", "s3_access_key_id", "s3_secret_access_key")


class SecretFiles(PydanticBaseSettingsSource):
    """Reads the files when the settings are made."""

    def __init__(self, settings: type[BaseSettings], prefix: str) -> None:
        super().__init__(settings)
        self._prefix = prefix

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """What a file holds for one setting; Any, because the base class says so."""
        if field_name not in SECRETS:
            return None, field_name, False
        return secret(os.environ, f"{self._prefix}{field_name.upper()}"), field_name, False

    def __call__(self) -> dict[str, Any]:
        """What all files hold."""
        found = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in found.items() if value is not None}
