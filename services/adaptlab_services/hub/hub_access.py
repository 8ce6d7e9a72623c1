"""What a process needs to read from a hub, and what it may reach."""

from typing import TYPE_CHECKING, Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_serializer

from adaptlab.values import Value
from adaptlab_answers.hub import RepositoryKind
from adaptlab_services.limits.addresses import AddressRules, Network

if TYPE_CHECKING:
    from adaptlab_services.settings import Settings

PORTS = {"http": 80, "https": 443}


class HubHosts(Value):
    """The hosts that a hub's answers may lead to.

    The endpoint, and hosts that an operator names in full, may have any address. A pattern such as
    `*.hf.co` is for names below it, with public addresses and https only.
    """

    endpoint: str
    named: tuple[str, ...] = ()

    @property
    def alias(self) -> str:
        """The endpoint without its scheme, as users see it."""
        return self.endpoint.partition("://")[2]

    def allows(self, url: str) -> bool:
        """Return True if a request may be sent to an address."""
        parts, hub = urlsplit(url), urlsplit(self.endpoint)
        host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme)
        if (parts.scheme, host, port) == _origin(self.endpoint):
            return True
        if parts.scheme not in ("https", hub.scheme):
            return False
        return self._is_named(host, port) or (
            parts.scheme == "https" and port == PORTS["https"] and self._is_below(host)
        )

    def trusts(self, host: str) -> bool:
        """Return True for a host that may have any address."""
        names = {urlsplit(f"//{name}").hostname for name in self.named if not _is_pattern(name)}
        return host in {urlsplit(self.endpoint).hostname, *names}

    def _is_named(self, host: str, port: int | None) -> bool:
        for name in self.named:
            place = urlsplit(f"//{name}")
            if not _is_pattern(name) and host == place.hostname:
                return place.port in (None, port)
        return False

    def _is_below(self, host: str) -> bool:
        return any(host.endswith(name[1:]) for name in self.named if _is_pattern(name))


class HubAccess(Value):
    """What the process gets through its input; nothing else has the token.

    Attributes:
        hosts: where requests may go.
        networks: networks whose addresses count as public.
        token: the user's token, None for none.
        read_seconds: limit on the time between two parts of an answer.
    """

    hosts: HubHosts
    networks: tuple[Network, ...] = ()
    token: SecretStr | None = None
    read_seconds: Annotated[float, Field(gt=0)] = 30.0

    @classmethod
    def of(cls, settings: "Settings", token: str | None) -> Self:
        """Return the access of a server, with a user's token."""
        hosts = HubHosts(endpoint=settings.hub_endpoint, named=settings.hub_hosts)
        secret = None if token is None else SecretStr(token)
        return cls(hosts=hosts, networks=settings.webhook_networks, token=secret)

    @property
    def rules(self) -> AddressRules:
        """The rules for addresses of hosts that are not trusted."""
        return AddressRules(self.networks)

    @field_serializer("token", when_used="json")
    def _revealed(self, token: SecretStr | None) -> str | None:
        return None if token is None else token.get_secret_value()


class ReadAccount(Value):
    """A request to the process for the account of the token."""

    account: Literal[True] = True


class ReadInfo(Value):
    """A request to the process for what a repository has."""

    kind: RepositoryKind = "model"
    repository: str
    revision: str


class ReadFile(Value):
    """A request to the process for the bytes `start` to `stop` of a file."""

    kind: RepositoryKind = "model"
    repository: str
    commit: str
    file: str
    start: int
    stop: int
    size: int


class PushFolder(Value):
    """A request to the process to write a folder to a repository.

    A new repository is private unless `is_public`. One with other files than `marker` in its card
    is left alone.
    """

    repository: str
    folder: str
    files: tuple[str, ...]
    is_public: bool
    marker: str
    message: str


class Pushed(Value):
    """Where a folder was written; `is_new` if that took a commit."""

    commit: str
    is_new: bool


class HubFile(Value):
    """A file of a repository; `sha256` is None outside LFS."""

    name: str
    size: int | None
    sha256: str | None = None
    blob: str | None = None


class CardFiles(Value):
    """The files of a split, as a card has them."""

    split: str
    patterns: tuple[str, ...]


class CardConfig(Value):
    """A configuration of a dataset, as its card has it.

    Attributes:
        files: those of each split; without any, they are found by their names.
        folder: the folder of the files.
        delimiter: the sign between columns of CSV.
        options: further options of other libraries, which change how files are read.
        class_names: the names of classes, by number, by field.
    """

    name: str
    is_default: bool = False
    files: tuple[CardFiles, ...] = ()
    folder: str | None = None
    delimiter: str | None = None
    options: tuple[str, ...] = ()
    class_names: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])


class HubRepository(Value):
    """A repository at a commit.

    `files` are those in its root for a model, and all with records for a dataset, which has
    `configs`.
    """

    commit: str
    files: tuple[HubFile, ...]
    file_count: int
    configs: tuple[CardConfig, ...] = ()
    licence: str | None = None
    licence_name: str | None = None
    licence_link: str | None = None
    gated: str | None = None
    private: bool = False


class Frame(Value):
    """The line before what the process writes; `size` bytes follow it.

    A `code` ends a request in vain, with `detail` about it, and the `seconds` to wait.
    """

    size: int = 0
    is_last: bool = False
    code: str | None = None
    detail: str = ""
    seconds: float | None = None


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme)


def _is_pattern(name: str) -> bool:
    return name.startswith("*.")
