"""A spec as YAML that is read and edited by people."""

from collections.abc import Mapping
from typing import cast

import yaml


def spec_text(spec: Mapping[str, object]) -> str:
    """Return a spec as YAML, with the mappings inside of its parts on one line each."""
    parts = {name: _with_lines(part) for name, part in spec.items()}
    return yaml.dump(parts, Dumper=_SpecDumper, sort_keys=False, allow_unicode=True, width=88)


class _OneLine(dict[str, object]):
    """A mapping that is written on one line."""


class _OneLineList(list[object]):
    """A list that is written on one line."""


class _SpecDumper(yaml.SafeDumper):
    """Writes texts with line feeds, or with spaces at their ends, in double quotes."""


def commented(spec: Mapping[str, object], comments: Mapping[str, str]) -> str:
    """Return a spec as YAML, with comments above its members."""
    parts: list[str] = []
    for name, part in spec.items():
        lines = "".join(f"# {line}".rstrip() + "\n" for line in comments.get(name, "").splitlines())
        parts.append(lines + spec_text({name: part}))
    return "\n".join(parts)


def _with_lines(part: object) -> object:
    if isinstance(part, list):
        entries = cast("list[object]", part)
        if any(isinstance(entry, dict) for entry in entries):
            return [_with_lines(entry) for entry in entries]
        return _OneLineList(entries)
    if not isinstance(part, dict):
        return part
    items = cast("dict[str, object]", part).items()
    return {
        key: _OneLine(cast("dict[str, object]", value)) if isinstance(value, dict) else value
        for key, value in items
    }


def _text_node(_: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    quote = '"' if "\n" in text or text != text.strip() else None
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=quote)


def _one_line_node(dumper: yaml.SafeDumper, value: _OneLine) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)


def _one_line_list_node(dumper: yaml.SafeDumper, value: _OneLineList) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)


_SpecDumper.add_representer(str, _text_node)
_SpecDumper.add_representer(_OneLineList, _one_line_list_node)
_SpecDumper.add_representer(_OneLine, _one_line_node)
