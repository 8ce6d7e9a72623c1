"""The configured stores, and sessions with stores and limits."""

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.session import session_factory
from adaptlab_db.stores.directory import DirectoryStore
from adaptlab_db.stores.postgres import PostgresStore
from adaptlab_db.stores.store import POSTGRES, Store, Stores
from adaptlab_services.limits import quotas
from adaptlab_services.limits.quotas import Allowed
from adaptlab_services.limits.sizes import Sizes, bounded
from adaptlab_services.models import base_models
from adaptlab_services.settings import Settings


def open_sessions(settings: Settings) -> sessionmaker[Session]:
    """Return a process's sessions, with the stores and limits of the settings."""
    sessions = session_factory(settings.database_url, stores(settings))
    limited = quotas.bounded(bounded(sessions, Sizes.of(settings)), Allowed.of(settings))
    return base_models.remembering(limited)


def stores(settings: Settings) -> Stores:
    """Return every configured store, those for new artifacts or not."""
    by_name: dict[str, Store] = {POSTGRES: PostgresStore()}
    if settings.artifact_folder is not None:
        by_name["directory"] = DirectoryStore(settings.artifact_folder)
    if settings.s3_bucket is not None:
        by_name["s3"] = _s3(settings, settings.s3_bucket)
    return Stores(by_name, settings.artifact_store, settings.artifact_store_from_bytes)


def _s3(settings: Settings, bucket: str) -> Store:
    # Imported only if used, because it takes 10 MB of memory.
    from adaptlab_db.stores.s3 import S3Address, S3Store

    return S3Store(
        S3Address(
            bucket=bucket,
            prefix=settings.s3_prefix,
            endpoint=settings.s3_endpoint,
            region=settings.s3_region,
            access_key_id=settings.s3_access_key_id,
            secret_access_key=settings.s3_secret_access_key,
        )
    )
