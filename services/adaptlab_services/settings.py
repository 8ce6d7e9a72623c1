"""Settings from environment variables with the prefix ADAPTLAB_."""

import os
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from adaptlab.errors import BadSettings
from adaptlab.specs.spec import UPLOADED
from adaptlab.values import Queue
from adaptlab_db.session import normalised_url
from adaptlab_db.stores.store import POSTGRES, StoreName
from adaptlab_services.log_formats import LogFormat, LogLevel
from adaptlab_services.secret_settings import SecretFiles

PREFIX = "ADAPTLAB_"
Alias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]

Network = IPv4Network | IPv6Network
Hours = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _hub_endpoint() -> str:
    """Return the hub that other programs of this environment use."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


class Settings(BaseSettings):
    """The settings of one server process; its text and errors omit secrets.

    The URLs and the S3 keys can be in files instead, which the variables ADAPTLAB_…_FILE name.

    Attributes:
        database_url: Postgres, as `postgresql://user:password@host:port/name`.
        broker_url: Valkey or Redis, as `redis://host:port/number`; rings the doorbells of workers.
        data_dir: folder for the token, scratch files and cached assets.
        queues: queues that a worker serves, separated by commas.
        lease_seconds: how long a lease lasts without a heartbeat.
        heartbeat_seconds: interval between a working worker's heartbeats.
        poll_seconds: interval at which an idle worker polls for jobs without a doorbell.
        save_seconds: interval at which a training's state is saved; longer for large states.
        memory_bytes: memory for one run of a worker; None for most of what is free.
        workers_per_machine: worker processes that share a machine and its memory; set by `adaptlab
            up --workers`.
        scratch_free_bytes: free space on a worker's disk below which it claims no job; None for 5 %
            of the disk, at most 1 GiB.
        cache_bytes: bytes of fetched weights that the workers of a machine keep.
        trainer_user: user of the trainers: a name, `same` as the worker, or `auto`, which is a
            separate user id if the worker is root.
        trainer_reads: folders that trainers can read in addition to the installation and the model
            roots; separated by colons.
        trainer_writes: folders that trainers can write to in addition to their own; separated by
            colons.
        trainer_memory_bytes: memory limit of a trainer; None for all of the machine's.
        trainer_network: `allowed` if trainers can use the network; the engine needs none.
        trainer_environment: further environment variables that trainers inherit.
        sweep_seconds: interval at which beat rings again for queues whose doorbells were lost, and
            at which webhooks are sent, by a worker and by the API.
        question_seconds: interval at which the API looks for passes that have ended of studies with
            a question.
        reap_seconds: interval between searches for expired leases.
        reaper_arm_seconds: how long a worker must have seen the database without interruption
            before it takes leases back.
        ride_through_seconds: how long a run continues while its worker cannot reach the database.
        stall_seconds: how long a run may report nothing if its steps are fast.
        stall_steps: how many of its own median steps a run may report nothing for.
        max_body_bytes: size limit of a request body.
        max_upload_bytes: size limit of an upload.
        max_dataset_bytes: size limit of an upload that is read as records.
        max_uploads: limit on an owner's uploads at a time, complete or not.
        read_rate: reads per second and user; `read_burst` is the limit at once.
        write_rate: likewise for requests that change something, with `write_burst`.
        lease_rate: lease requests per second of all workers with one token, with `lease_burst`.
        max_open_requests: limit on a user's open requests, streams and long polls included.
        answer_seconds: how long a response may take to start before it becomes a 503; longer for
            long polls and routes that move files.
        wrong_tokens_per_minute: wrong tokens from one address before it has to wait.
        sign_ins_per_minute: sign-in forms from one address, successful or not.
        max_model_parameters: limit on the parameters of a trained or imported model.
        max_batch_tokens: limit on the tokens per batch and replicate.
        max_attention_bytes: size limit of a job's attention maps.
        max_check_tokens: limit on the tokens that a theory check passes through models.
        max_job_bytes: size limit of a job's checkpoints and saved state together.
        max_study_jobs: limit on the jobs per study.
        max_queued_jobs: limit on an owner's waiting and queued jobs; None for no limit.
        max_running_jobs: limit on an owner's running jobs; None for no limit.
        max_queue_hours: limit on an owner's hours of attempts in thirty days, by queue, as
            `gpu=100,cpu=1000`; queues that are not named have no limit.
        max_stored_bytes: limit on an owner's stored bytes; None for no limit. Admins can set other
            quotas than these two for a user.
        model_roots: folders that contain model folders for jobs, by alias, as
            `alias=/path,alias2=/path2`.
        dataset_roots: folders with files of records that submitters make datasets of, likewise.
        artifact_store: store for new artifacts of at least `artifact_store_from_bytes` bytes.
        artifact_folder: folder of the store `directory`, the same for all processes.
        s3_bucket: bucket of the store `s3`; credentials come from the settings that follow, or from
            where Amazon's own tools look for them.
        attention_days: days after a job's end for which its attention maps are kept; None keeps
            them forever. Jobs with the label `keep` lose nothing.
        checkpoint_days: likewise for checkpoints, except those of base models, which stay.
        archived_days: days for which jobs that have ended stay archived before they are deleted;
            None keeps them forever. What a deletion would refuse stays, and so do jobs with the
            label `keep`.
        curve_days: days after a job's end for which the points of its learning curves are kept;
            studies keep those of their jobs.
        worker_days: days after a worker's last sign of life for which it is listed.
        scrub_days: days within which every artifact is read and compared with its digest.
        log_format: `text` or `json`, one object per line.
        log_level: the least level that is logged: `debug`, `info`, `warning` or `error`.
        access_log: whether the API logs every request.
        public_url: address of the server for links in messages, as `https://lab.example.org`; its
            path, if it has one, is the prefix of all addresses.
        webhook_networks: networks that webhooks reach in addition to public addresses, as
            `10.1.0.0/16,fd00::/8`.
        webhook_http: `allowed` if webhooks can have addresses without TLS.
        hub: `off` if the API fetches no models from a hub.
        hub_endpoint: address of the hub or a mirror; the default is that of `HF_ENDPOINT`.
        hub_hosts: further hosts that the hub's answers may lead to, as `cdn.example.org` or
            `*.example.org`; those in full may have private addresses.
        hub_token_key: secret of 32 characters or more that seals users' tokens of the hub; without
            it, each data directory has its own. Servers that share a database need the same.
        max_hub_bytes: size limit of a model that is fetched.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True
    )

    database_url: str = Field(repr=False)
    broker_url: str = Field(repr=False)
    data_dir: Path = Path(".adaptlab")
    queues: Annotated[tuple[Queue, ...], NoDecode, Field(min_length=1)] = ("cpu",)
    lease_seconds: float = Field(default=30, gt=0)
    heartbeat_seconds: float = Field(default=2, gt=0)
    poll_seconds: float = Field(default=10, gt=0)
    save_seconds: float = Field(default=30, gt=0)
    memory_bytes: int | None = Field(default=None, gt=0)
    workers_per_machine: int = Field(default=1, ge=1)
    scratch_free_bytes: int | None = Field(default=None, ge=0)
    cache_bytes: int = Field(default=4 * 2**30, ge=0)
    trainer_user: str = Field(default="auto", min_length=1)
    trainer_memory_bytes: int | None = Field(default=None, ge=2**30)
    trainer_network: Literal["refused", "allowed"] = "refused"
    trainer_environment: Annotated[tuple[str, ...], NoDecode] = ()
    trainer_reads: Annotated[tuple[Path, ...], NoDecode] = ()
    trainer_writes: Annotated[tuple[Path, ...], NoDecode] = ()
    sweep_seconds: float = Field(default=10, gt=0)
    question_seconds: float = Field(default=2, gt=0)
    reap_seconds: float = Field(default=5, gt=0)
    reaper_arm_seconds: float = Field(default=60, ge=0)
    ride_through_seconds: float = Field(default=900, ge=0)
    stall_seconds: float = Field(default=600, gt=0)
    stall_steps: float = Field(default=20, gt=0)
    max_body_bytes: int = Field(default=2**20, gt=0)
    max_upload_bytes: int = Field(default=2**30, gt=0)
    max_dataset_bytes: int = Field(default=2**28, gt=0)
    max_uploads: int = Field(default=8, gt=0)
    read_rate: int = Field(default=100, gt=0)
    read_burst: int = Field(default=200, gt=0)
    write_rate: int = Field(default=20, gt=0)
    write_burst: int = Field(default=50, gt=0)
    lease_rate: int = Field(default=200, gt=0)
    lease_burst: int = Field(default=400, gt=0)
    max_open_requests: int = Field(default=100, gt=0)
    answer_seconds: float = Field(default=30, gt=0)
    wrong_tokens_per_minute: int = Field(default=5, gt=0)
    sign_ins_per_minute: int = Field(default=20, gt=0)
    max_model_parameters: int = Field(default=10**10, gt=0)
    max_batch_tokens: int = Field(default=2**20, gt=0)
    max_attention_bytes: int = Field(default=256 * 2**20, gt=0)
    max_check_tokens: int = Field(default=2**30, gt=0)
    max_job_bytes: int = Field(default=16 * 2**30, gt=0)
    max_study_jobs: int = Field(default=1000, gt=0)
    max_queued_jobs: int | None = Field(default=None, gt=0)
    max_running_jobs: int | None = Field(default=None, gt=0)
    max_queue_hours: Annotated[dict[Queue, Hours], NoDecode] = Field(
        default_factory=dict[str, float]
    )
    max_stored_bytes: int | None = Field(default=None, gt=0)
    model_roots: Annotated[dict[Alias, Path], NoDecode] = Field(default_factory=dict[str, Path])
    dataset_roots: Annotated[dict[Alias, Path], NoDecode] = Field(default_factory=dict[str, Path])
    artifact_store: StoreName = POSTGRES
    artifact_store_from_bytes: int = Field(default=256 * 2**20, ge=0)
    artifact_folder: Path | None = None
    s3_bucket: str | None = None
    s3_prefix: str = ""
    s3_endpoint: str | None = None
    s3_region: str = "us-east-1"
    s3_access_key_id: str | None = Field(default=None, repr=False)
    s3_secret_access_key: str | None = Field(default=None, repr=False)
    attention_days: float | None = Field(default=None, gt=0)
    checkpoint_days: float | None = Field(default=None, gt=0)
    archived_days: float | None = Field(default=None, ge=1)
    curve_days: float | None = Field(default=None, ge=1)
    worker_days: float | None = Field(default=None, ge=1)
    scrub_days: float = Field(default=30, gt=0)
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    access_log: bool = True
    public_url: str | None = Field(default=None, pattern=r"^https?://[!-~]+$", max_length=200)
    webhook_networks: Annotated[tuple[Network, ...], NoDecode] = ()
    webhook_http: Literal["refused", "allowed"] = "refused"
    hub: Literal["on", "off"] = "on"
    hub_endpoint: str = Field(
        default_factory=_hub_endpoint, pattern=r"^https?://[!-~]+[^/]$", max_length=200
    )
    hub_hosts: Annotated[tuple[str, ...], NoDecode] = ("*.huggingface.co", "*.hf.co")
    hub_token_key: str | None = Field(default=None, min_length=32, repr=False)
    max_hub_bytes: int = Field(default=64 * 2**30, gt=0)

    def __init__(self, **values: object) -> None:
        """Read the settings; the arguments take precedence over the environment.

        Raises:
            BadSettings: a setting is missing or invalid.
        """
        try:
            super().__init__(**values)  # pyright: ignore[reportArgumentType] - checked by pydantic
        except ValidationError as error:
            raise BadSettings("\n".join(map(_message, error.errors()))) from None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources by precedence: arguments, environment, secret files."""
        return init_settings, env_settings, SecretFiles(settings_cls, PREFIX)

    @field_validator("database_url")
    @classmethod
    def _normalise(cls, url: str) -> str:
        return normalised_url(url)

    @field_validator(
        "queues", "trainer_environment", "webhook_networks", "hub_hosts", mode="before"
    )
    @classmethod
    def _split(cls, names: object) -> object:
        if isinstance(names, str):
            return tuple(name.strip() for name in names.split(",") if name.strip())
        return names

    @field_validator("trainer_reads", "trainer_writes", mode="before")
    @classmethod
    def _folders(cls, folders: object) -> object:
        if isinstance(folders, str):
            return tuple(folder for folder in folders.split(os.pathsep) if folder)
        return folders

    @field_validator("trainer_reads", "trainer_writes")
    @classmethod
    def _folders_are_absolute(cls, folders: tuple[Path, ...]) -> tuple[Path, ...]:
        for folder in folders:
            if not folder.is_absolute():
                raise ValueError(f"{folder} is not an absolute path. Give /path or /path:/path2.")
        return folders

    @field_validator("max_queue_hours", mode="before")
    @classmethod
    def _hours(cls, hours: object) -> object:
        if not isinstance(hours, str):
            return hours
        pairs = [pair.strip().partition("=") for pair in hours.split(",") if pair.strip()]
        return {queue.strip(): most.strip() for queue, _, most in pairs}

    @field_validator("model_roots", "dataset_roots", mode="before")
    @classmethod
    def _roots(cls, roots: object) -> object:
        if not isinstance(roots, str):
            return roots
        pairs = [pair.strip().partition("=") for pair in roots.split(",") if pair.strip()]
        by_alias = {alias.strip(): path.strip() for alias, _, path in pairs}
        if len(by_alias) < len(pairs):
            raise ValueError(f"An alias occurs twice in the roots {roots!r}.")
        return by_alias

    @field_validator("model_roots", "dataset_roots")
    @classmethod
    def _roots_are_absolute(cls, roots: dict[str, Path]) -> dict[str, Path]:
        for alias, path in roots.items():
            if not path.is_absolute():
                raise ValueError(
                    f"The root {alias}={path} is not of the form alias=/absolute/path."
                )
        return roots

    @field_validator("model_roots")
    @classmethod
    def _none_is_of_uploads(cls, roots: dict[str, Path]) -> dict[str, Path]:
        if UPLOADED in roots:
            raise ValueError(
                f"The alias {UPLOADED!r} is that of uploaded model folders. Choose another one."
            )
        return roots

    @model_validator(mode="after")
    def _heartbeats_fit(self) -> Self:
        if 2 * self.heartbeat_seconds > self.lease_seconds:
            raise ValueError(
                f"A lease of {self.lease_seconds} s ends before the second heartbeat at "
                f"intervals of {self.heartbeat_seconds} s. Set ADAPTLAB_HEARTBEAT_SECONDS to "
                "at most half of the lease."
            )
        return self

    @model_validator(mode="after")
    def _store_is_set_up(self) -> Self:
        if self.artifact_store == "directory" and self.artifact_folder is None:
            raise ValueError("ADAPTLAB_ARTIFACT_STORE is directory: set ADAPTLAB_ARTIFACT_FOLDER.")
        if self.artifact_store == "s3" and self.s3_bucket is None:
            raise ValueError("ADAPTLAB_ARTIFACT_STORE is s3: set ADAPTLAB_S3_BUCKET.")
        return self


def _message(error: ErrorDetails) -> str:
    """Return one line on a bad setting: variable, value unless secret, error."""
    wrong = error["msg"].removeprefix("Value error, ").rstrip(".")
    if not error["loc"]:  # concerns several settings, which the message names
        return f"{wrong}."
    name = str(error["loc"][0])
    variable = f"{PREFIX}{name.upper()}"
    if error["type"] == "missing":
        return f"{variable} is not set. See docs/reference/settings.md."
    field = Settings.model_fields[name]
    value = f" is {error['input']!r}" if field.repr else ""
    default = "" if field.is_required() else ", or leave it unset for the default"
    return f"{variable}{value}: {wrong[:1].lower()}{wrong[1:]}. Set it to another value{default}."
