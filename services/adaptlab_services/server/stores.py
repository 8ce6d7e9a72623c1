"""The stores of bytes that the settings name, and sessions that know them and other bounds."""

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
    """Sessions on the database of a process, in which artifacts lie where the settings say."""
    sessions = session_factory(settings.database_url, stores(settings))
    limited = quotas.bounded(bounded(sessions, Sizes.of(settings)), Allowed.of(settings))
    return base_models.remembering(limited)


def stores(settings: Settings) -> Stores:
    """Every store that the settings describe, also those that new artifacts do not go to."""
    known: dict[str, Store] = {POSTGRES: PostgresStore()}
    if settings.artifact_folder is not None:
        known["directory"] = DirectoryStore(settings.artifact_folder)
    if settings.s3_bucket is not None:
        known["s3"] = _s3(settings, settings.s3_bucket)
    return Stores(known, settings.artifact_store, settings.artifact_store_from_bytes)


def _s3(settings: Settings, bucket: str) -> Store:
    # Imported only where it is used: it takes 10 MB of memory.
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
