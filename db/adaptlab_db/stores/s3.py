"""Store in objects of an S3-compatible server.

Alternatives to obstore were boto3 (untyped), s3fs (asynchronous, for data frames) and minio (one
request at a time). obstore is typed, streams in parts, and is one wheel without dependencies.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store as Bucket
from sqlalchemy.orm import Session

from adaptlab_db.errors import BytesMissing, StoreUnreachable
from adaptlab_db.stores.store import BytesPlace, KeptKey, StoreName, new_key, owner_of

if TYPE_CHECKING:
    from obstore.store import S3Config

PART_BYTES = 8 * 2**20  # at most 10,000 parts an object: 78 GiB
UPLOADS_AT_ONCE = 2  # each holds a part in memory
READ_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class S3Address:
    """The address of a bucket; missing credentials come from the environment.

    Attributes:
        endpoint: as `https://host:port`; None is Amazon's own.
        prefix: prefix of every name in the bucket.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str = "us-east-1"
    access_key_id: str | None = None
    secret_access_key: str | None = None


class S3Store:
    """Objects named by digest below a prefix, visible once they are complete."""

    name: StoreName = "s3"
    is_transactional = False

    def __init__(self, address: S3Address) -> None:
        self._where = f"{address.endpoint or 's3'}/{address.bucket}"
        self._bucket = _bucket(address)

    def put(self, session: Session, sha256: str, chunks: Iterable[bytes]) -> BytesPlace:
        """See `Store`."""
        key = new_key(owner_of(session), sha256)
        with self._translated():
            obstore.put(
                self._bucket,
                key,
                (chunk for chunk in chunks if chunk),
                chunk_size=PART_BYTES,
                max_concurrency=UPLOADS_AT_ONCE,
            )
        return BytesPlace(self.name, sha256, key)

    def read(self, session: Session, place: BytesPlace, start: int, stop: int) -> bytes:
        """See `Store`; returns at most 4 MiB."""
        end = min(stop, start + READ_BYTES)
        with self._translated():
            try:
                content = obstore.get_range(self._bucket, _key(place), start=start, end=end)
            except FileNotFoundError:
                content = b""
        if not content:
            raise BytesMissing(self.name, place.sha256)
        return bytes(content)

    def delete(self, session: Session, place: BytesPlace) -> None:
        """See `Store`."""
        with self._translated():
            obstore.delete(self._bucket, _key(place))

    def kept(self) -> Iterator[KeptKey]:
        """See `Store`; parts of interrupted uploads are left to a bucket rule."""
        with self._translated():
            # Its types name tables of arro3, which this call does not return.
            pages = obstore.list(self._bucket)  # pyright: ignore[reportUnknownMemberType]
            for page in pages:
                for entry in page:
                    yield KeptKey(entry["path"], entry["last_modified"])

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            # obstore's message repeats the whole request; its first line has the cause.
            raise StoreUnreachable(self.name, self._where, str(error).split("\n")[0]) from error


def _key(place: BytesPlace) -> str:
    if place.key is None:
        raise ValueError(f"Artifact {place.sha256} has no key in the store s3.")
    return place.key


def _bucket(address: S3Address) -> Bucket:
    config: S3Config = {"region": address.region}
    if address.endpoint is not None:
        config["endpoint"] = address.endpoint
    if address.access_key_id is not None:
        config["access_key_id"] = address.access_key_id
    if address.secret_access_key is not None:
        config["secret_access_key"] = address.secret_access_key
    return Bucket(
        address.bucket,
        prefix=address.prefix or None,
        config=config,
        client_options={"allow_http": (address.endpoint or "").startswith("http://")},
        retry_config={"max_retries": 3},
    )
