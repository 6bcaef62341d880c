"""YAML with line numbers, so that an error can say where in the file it is."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from storewise.errors import ConfigError

Place = tuple[str | int, ...]


def nearest(word: str, known: Sequence[str]) -> str:
    """` (did you mean ...?)` for the known word most like `word`, else nothing."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


@dataclass(frozen=True, slots=True)
class StudyText:
    """The mapping in a YAML file and the file and line of every key in it."""

    path: Path
    data: dict[str, Any]
    lines: Mapping[Place, tuple[Path, int]] = field(default_factory=dict)

    def fail(self, place: Place, message: str) -> NoReturn:
        """Raise ConfigError for a key; the line is that of the longest part of it we know."""
        place = tuple(p for p in place if p not in {"params"})
        path, line = self.path, 0
        for end in range(len(place), 0, -1):
            if place[:end] in self.lines:
                path, line = self.lines[place[:end]]
                break
        where = f"{path}, line {line}" if line else str(path)
        raise ConfigError(f"{where}: {'.'.join(map(str, place)) or 'study'}: {message}")


def read_yaml(path: Path, what: str = "study") -> StudyText:
    """Read a YAML mapping; a key given twice is an error, not a silent choice of the last.

    `what` the file holds is for errors: "study", "list of prices".
    """
    try:
        content = path.read_text(encoding="utf-8")
        root = yaml.compose(content, Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not valid YAML: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line_number = content.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{path}, line {line_number}: not valid YAML: {error.reason} "
            f"(character {error.character:#04x})"
        ) from error
    if root is None:
        help_ = "; `storewise init` writes one to start with" if what == "study" else ""
        raise ConfigError(f"{path}: the {what} is empty{help_}")
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(
            f"{path}, line {root.start_mark.line + 1}: a {what} is a mapping of keys to values"
        )
    lines: dict[Place, tuple[Path, int]] = {}
    loader = yaml.SafeLoader("")
    _refuse_cycles(root, path, [])
    data = _build(root, (), path, lines, loader)
    return StudyText(path, data, lines)


def _refuse_cycles(node: yaml.Node, path: Path, around: list[yaml.Node]) -> None:
    """An alias inside of what it stands for would have no end."""
    if any(node is outer for outer in around):
        line = node.start_mark.line + 1
        raise ConfigError(f"{path}, line {line}: an anchor whose value holds its own alias")
    if isinstance(node, yaml.CollectionNode):
        around.append(node)
        for item in node.value:
            for child in item if isinstance(item, tuple) else (item,):
                _refuse_cycles(child, path, around)
        around.pop()


def _build(
    node: yaml.Node,
    place: Place,
    path: Path,
    lines: dict[Place, tuple[Path, int]],
    loader: yaml.SafeLoader,
) -> Any:
    lines.setdefault(place, (path, node.start_mark.line + 1))
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            # A bare `null:` names the null engine.
            name = "null" if key is None else key
            here = (*place, name)
            line = key_node.start_mark.line + 1
            if name in result:
                first = lines[here][1]
                raise ConfigError(
                    f"{path}, line {line}: {'.'.join(map(str, here))}: given twice, "
                    f"first in line {first}"
                )
            lines[here] = (path, line)
            result[name] = _build(value_node, here, path, lines, loader)
        return result
    if isinstance(node, yaml.SequenceNode):
        items = []
        for i, item in enumerate(node.value):
            value = _build(item, (*place, i), path, lines, loader)
            if isinstance(value, str | None.__class__):  # `engines: [a, b]` is asked for by name
                lines.setdefault(
                    (*place, "null" if value is None else value), (path, item.start_mark.line + 1)
                )
            items.append(value)
        return items
    try:
        return loader.construct_object(node, deep=True)
    except ValueError as error:  # 2026-02-30 has the form of a day and is none
        raise ConfigError(
            f"{path}, line {node.start_mark.line + 1}: {'.'.join(map(str, place))}: "
            f"{node.value!r}: {error}"
        ) from error
