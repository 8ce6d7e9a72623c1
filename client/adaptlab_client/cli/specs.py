"""Specs from files, stdin and `--set`."""

import re
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, cast

from adaptlab_client.cli.exits import UsageError

if TYPE_CHECKING:
    import yaml

Settings = dict[str, object]
LARGEST_FILE = 16 * 2**20


def read_spec(source: str | None, settings: Sequence[str]) -> Settings:
    """Return the spec in a YAML or JSON file, changed by `--set`.

    `-` is stdin. A setting is PATH=VALUE: a dotted path, such as `training.steps`, and a value in
    YAML. Raises `UsageError`.
    """
    spec: Settings = {}
    if source is not None:
        name = "stdin" if source == "-" else source
        content = _parsed(_text(source), name)
        if not isinstance(content, dict):
            raise UsageError(f"{name} does not contain a job spec: it is not a mapping.")
        spec = cast("Settings", content)
    for setting in settings:
        _apply(setting, spec)
    if not spec:
        raise UsageError("Give a FILE with a job spec, `-` for stdin, or --set PATH=VALUE.")
    return spec


def changed_members(spec: Mapping[str, object], settings: Sequence[str]) -> Settings:
    """Return the members of a spec that `--set` changes, whole.

    Raises:
        UsageError: a setting is not PATH=VALUE, or leads into a value.
    """
    changed = deepcopy(dict(spec))
    touched = dict.fromkeys(_apply(setting, changed) for setting in settings)
    return {member: changed[member] for member in touched}


def _apply(setting: str, spec: Settings) -> str:
    """Apply one `--set` to a spec; return the member that has changed."""
    path, equals, value = setting.partition("=")
    if not equals or not all(path.split(".")):
        raise UsageError(
            f"--set {setting!r} is not of the form PATH=VALUE, such as training.steps=500."
        )
    steps = path.split(".")
    _set(spec, steps, _parsed(value, f"--set {path}"), setting)
    return steps[0]


def read_value(text: str) -> object:
    """Return a value from the command line, parsed as YAML."""
    return _parsed(text, repr(text))


def read_choice(text: str) -> str | Settings:
    """Return a plug-in from the command line, as a name or a mapping in YAML."""
    value = read_value(text)
    if not isinstance(value, str | dict):
        raise UsageError(f"{text!r} is neither a name nor a mapping such as {{name: lora}}.")
    return cast("str | Settings", value)


def _text(source: str) -> str:
    try:
        data = sys.stdin.buffer.read(LARGEST_FILE + 1) if source == "-" else _file(Path(source))
        if len(data) > LARGEST_FILE:
            raise UsageError(
                f"{source} is larger than {LARGEST_FILE} bytes, the limit for a job spec."
            )
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 text: {error.reason}.") from error


def _file(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {_why(error)}.") from error


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no such file in {Path.cwd()}"
    return (error.strerror or type(error).__name__).lower()


def _set(spec: Settings, path: list[str], value: object, setting: str) -> None:
    parent = spec
    for part in path[:-1]:
        member = parent.setdefault(part, {})
        if isinstance(member, str):
            member = parent[part] = {"name": member}  # `method: lora` is short for its name
        if not isinstance(member, dict):
            raise UsageError(f"--set {setting!r}: {part!r} is a value, not a mapping.")
        parent = cast("Settings", member)
    parent[path[-1]] = value


def _parsed(text: str, name: str) -> object:
    import yaml  # loaded for specs only

    try:
        return cast("object", yaml.load(text, _loader()))  # noqa: S506, TID251 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        raise UsageError(_told(error, name)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not valid YAML or JSON: {error}") from error


def _told(error: "yaml.MarkedYAMLError", name: str) -> str:
    """Return the place of an error in YAML, with its line and what to check."""
    mark = error.problem_mark
    if mark is None:
        return f"{name} is not valid YAML or JSON: {error}"
    return (
        f"{name} is not valid YAML or JSON: {error.problem} at line {mark.line + 1}, column "
        f"{mark.column + 1}:\n{mark.get_snippet()}\nCheck that this line and the one before have "
        "their quotes and brackets closed, and that members of a mapping begin in one column, "
        "after spaces and not tabs."
    )


def _loader() -> "type[yaml.SafeLoader]":
    """Return a loader with the scalars of YAML 1.2, a superset of JSON.

    PyYAML implements YAML 1.1, in which `1e-3` is a string, `2026-11-21` a date, `1:30` is 90 and
    `no` is false.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's interface
            first: [(tag, rule) for tag, rule in rules if tag.endswith((":null", ":merge"))]
            for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    scalars = {
        "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
        "int": (r"[-+]?(0|[1-9][0-9_]*)", "-+0123456789"),
        "float": (
            r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
            r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
            "-+.0123456789",
        ),
    }
    for kind, (rule, first) in scalars.items():
        pattern = re.compile(f"^({rule})$")
        for character in first:
            rules = Loader.yaml_implicit_resolvers.setdefault(character, [])
            rules.append((f"tag:yaml.org,2002:{kind}", pattern))
    return Loader
