"""YAML with line numbers, so that an error can say where in the file it is.

What a file may hold is bounded before anything is built from it: a few kB of YAML can stand for
more than any memory.
"""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import yaml

from storewise.errors import ConfigError

Place = tuple[str | int, ...]

#: Bytes of a file.
MOST_BYTES = 1_000_000
#: Values of a file; an alias counts as much as what it stands for.
MOST_VALUES = 50_000
#: Mappings and lists inside of each other.
MOST_LEVELS = 32
#: Characters of one text.
LONGEST = 10_000
#: Characters of one number: more are none that anybody means.
_LONGEST_NUMBER = 40
#: Characters of a value in a message, and of a whole message.
_SHOWN = 100
#: Similarity (`difflib`) from which on a suggested word is certain, so that no others are listed.
_CERTAIN = 0.8
_MESSAGE = 1500
#: The parser in C takes a thirtieth of the time; wheels of PyYAML have it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE = "tag:yaml.org,2002:"
#: What a terminal, a command line or a file name cannot take; and halves of surrogate pairs.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def nearest(word: str, known: Sequence[str]) -> str:
    """` (did you mean ...?)` for the known word most like `word`, else nothing."""
    if len(word) > _SHOWN:
        return ""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def suggestion(word: str, known: Sequence[str], where: str = "known") -> str:
    """The end of a message about an unknown word: the known word that it closely resembles, else
    all known words."""
    if len(word) <= _SHOWN and difflib.get_close_matches(word, known, n=1, cutoff=_CERTAIN):
        return nearest(word, known)
    return f"{nearest(word, known)}; {where}: {', '.join(known) or 'none'}"


def shown(value: Any) -> str:
    """A value for a message, as Python writes it; a long one without its middle."""
    return shortened(repr(value))


def shortened(text: str, most: int = _SHOWN) -> str:
    """A text; a long one without its middle."""
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} ... {text[-most // 4 :]} ({len(text)} characters)"


def place_text(place: Place) -> str:
    """A key with the keys above it, joined by dots."""
    names = (str(part) for part in place)
    return ".".join(shortened(name if name.isprintable() else repr(name)) for name in names)


def is_file(path: Path) -> bool:
    """Whether there is such a file; False, too, for a name that no file can have."""
    return os.path.isfile(path)  # noqa: PTH113 - `Path.is_file` raises for too long names


@dataclass(frozen=True, slots=True)
class YamlFile:
    """The mapping in a YAML file and the file and line of every key in it."""

    path: Path
    data: dict[str, Any]
    lines: Mapping[Place, tuple[Path, int]] = field(default_factory=dict)
    what: str = "study"

    def fail(self, place: Place, message: str) -> NoReturn:
        """Raise ConfigError for a key; the line is that of the longest part of it we know."""
        place = tuple(p for p in place if p not in {"params"})
        path, line = self.path, 0
        for end in range(len(place), 0, -1):
            if place[:end] in self.lines:
                path, line = self.lines[place[:end]]
                break
        where = f"{path}, line {line}" if line else str(path)
        raise ConfigError(
            f"{where}: {place_text(place) or self.what}: {shortened(message, _MESSAGE)}"
        )


def read_yaml(path: Path, what: str = "study") -> YamlFile:
    """Read a YAML mapping; `what` the file holds is for errors: "study", "list of prices"."""
    return parse_yaml(read_text(path, what), path, what)


def parse_yaml(content: str, path: Path, what: str) -> YamlFile:
    """The YAML mapping in a text; a key given twice is an error, not a silent choice of the last.

    Keys are text as written; values are text, numbers, true, false, null, lists and mappings,
    without YAML's tags. Raises ConfigError that names `path` and the line.
    """
    try:
        _check_shape(content, path)
        root = yaml.compose(content, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        message = f"not valid YAML: {shortened(str(error.problem), _MESSAGE)}"
        mark = error.problem_mark
        if mark is None:
            raise ConfigError(f"{path}: {message}") from error
        if str(error.problem).startswith("found character that cannot"):
            line = content.split("\n")[mark.line]
            message += f" ({line[mark.column : mark.column + 1]!r})"
        raise ConfigError(f"{path}, line {mark.line + 1}: {message}") from error
    if root is None:
        help_ = "; `storewise init` writes one to start with" if what == "study" else ""
        raise ConfigError(f"{path}: the {what} is empty{help_}")
    if not isinstance(root, yaml.MappingNode):
        _refuse(path, root, f"a {what} is a mapping of keys to values")
    builder = _Builder(path)
    return YamlFile(path, builder.value(root, ()), builder.lines, what)


def read_text(path: Path, what: str, most: int = MOST_BYTES) -> str:
    """The text of a small file; ConfigError where it is no text, or larger than `most` bytes."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ConfigError(f"{path}: a {what} has at most {most:,} bytes; this file has more")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: the {what} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error


def _check_shape(content: str, path: Path) -> None:
    """Refuse YAML that would be too much or too deep as Python's values.

    Looks at one token after the other, so that nothing of what is refused is made. Raises
    ConfigError, and yaml.MarkedYAMLError for what is no YAML.
    """
    line = 0

    def fail(message: str) -> NoReturn:
        raise ConfigError(f"{path}, line {line + 1}: {message}")

    if bad := yaml.reader.Reader.NON_PRINTABLE.search(content):
        line = content.count("\n", 0, bad.start())
        fail(f"not valid YAML: special characters are not allowed (character {ord(bad[0]):#04x})")
    values = 0
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    for event in yaml.parse(content, Loader=_LOADER):
        line = event.start_mark.line if event.start_mark is not None else 0
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = values - before
        if not isinstance(event, yaml.NodeEvent):
            continue
        tag = getattr(event, "tag", None)
        if tag is not None:
            name = shown(tag.replace(_CORE, "!!"))
            fail(f"YAML's tag {name} is not taken: write plain values, text in quotes")
        values += 1
        if isinstance(event, yaml.AliasEvent):
            if any(event.anchor == anchor for anchor, _ in opened):
                fail("an anchor whose value holds its own alias")
            values += sizes.get(str(event.anchor), 1)
        elif isinstance(event, yaml.ScalarEvent):
            if len(event.value) > LONGEST:
                fail(f"a text of {len(event.value):,} characters; {LONGEST:,} is the most")
            if bad := _CONTROL.search(event.value):
                fail(f"{shown(event.value)}: a text has no control characters ({ord(bad[0]):#04x})")
        else:
            opened.append((event.anchor, values - 1))
            if len(opened) > MOST_LEVELS:
                fail(f"lists and mappings in more than {MOST_LEVELS} others")
        if values > MOST_VALUES:
            fail(
                f"more than {MOST_VALUES:,} values up to here (an alias counts as much as what it "
                "stands for)"
            )


def _refuse(path: Path, node: yaml.Node, message: str) -> NoReturn:
    raise ConfigError(f"{path}, line {node.start_mark.line + 1}: {message}")


class _Builder:
    """Makes Python's values of YAML's nodes; `lines` has the place of each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._loader = yaml.SafeLoader("")
        self.lines: dict[Place, tuple[Path, int]] = {}

    def value(self, node: yaml.Node, place: Place) -> Any:
        """The value of a node at a place; ConfigError for one that cannot be."""
        self._note(place, node)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for i, item in enumerate(node.value):
                value = self.value(item, (*place, i))
                if value is None or isinstance(value, str):  # `engines: [a, b]` is asked by name
                    self._note((*place, "null" if value is None else value), item)
                items.append(value)
            return items
        try:
            return _plain(cast(yaml.ScalarNode, node), self._loader)
        except ValueError as error:
            _refuse(self._path, node, f"{place_text(place)}: {shown(node.value)}: {error}")

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                _refuse(self._path, key, "a key is text, no list and no mapping")
            # As it is written: `on`, `1` and `null` (the engine) are names.
            name = key.value or "null"
            here = (*place, name)
            if name in result:
                first = self.lines[here][1]
                message = f"{place_text(here)}: given twice, first in line {first}"
                _refuse(self._path, key, message)
            self._note(here, key)
            result[name] = self.value(value, here)
        return result

    def _note(self, place: Place, node: yaml.Node) -> None:
        self.lines.setdefault(place, (self._path, node.start_mark.line + 1))


def _plain(node: yaml.ScalarNode, loader: yaml.SafeLoader) -> Any:
    """A scalar as text, number, truth value or None; ValueError for a number that is none."""
    kind = node.tag.removeprefix(_CORE)
    if kind not in {"int", "float", "bool", "null"}:
        return node.value  # a day, too, is the text that it is written as
    if kind in {"int", "float"} and len(node.value) > _LONGEST_NUMBER:
        raise ValueError(f"a number has at most {_LONGEST_NUMBER} digits")
    value = yaml.SafeLoader.yaml_constructors[node.tag](loader, node)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("is not a finite number")
    if kind == "int" and not -(2**63) <= value < 2**63:
        raise ValueError("a whole number has at most 64 bits")
    return value
