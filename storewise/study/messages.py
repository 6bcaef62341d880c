"""pydantic's complaints about a study in the words of whoever writes the YAML file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

from pydantic import BaseModel, ValidationError

from storewise.yamlfile import StudyText, nearest, shown

#: pydantic's words for Python types, and the words that a YAML file's author knows.
_WORDS = (
    (r"^(List|Dictionary) should have at least 1 item after validation, not 0", "is empty"),
    (r"a valid dictionary", "a mapping of keys to values"),
    (r"a valid integer.*", "a whole number"),
    (r"a valid boolean", "true or false"),
    (r"a valid string", "text"),
)


def explain(
    error: ValidationError,
    text: StudyText,
    study: type[BaseModel],
    sections: Sequence[type[BaseModel]],
    *,
    phase: type[BaseModel],
    more: Sequence[str],
) -> NoReturn:
    """Turn the first complaint into one ConfigError that names file, line and key.

    `sections` are the models of which `study` has fields, `phase` that of an entry of ``phases``;
    `more` are keys that a file may have and the model has not.
    """
    # A misspelt key also makes the right one missing: name the misspelt one.
    first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    place = tuple(first["loc"])
    if first["type"] == "extra_forbidden":
        model = study
        for part in place[:-1]:
            info = model.model_fields.get(str(part))
            model = next(
                (
                    t
                    for t in sections
                    if info is not None and re.search(rf"\b{t.__name__}\b", str(info.annotation))
                ),
                # The name of an entry is no field: what follows is the entry's own.
                phase if "phases" in place else model if info is None else study,
            )
        # A study is called what its file is, a phase stands below its name.
        known = sorted({*model.model_fields} - ({"name"} if model in (study, phase) else set()))
        if model is study:
            known += more
        text.fail(
            place,
            f"is not a known key{nearest(str(place[-1]), known)}; known here: {', '.join(known)}",
        )
    if first["type"] == "missing":
        text.fail(place, "is missing; config/README.md explains it")
    message = first["msg"].removeprefix("Value error, ")
    found = first.get("input")
    said = f"; found {shown(found)}" if not isinstance(found, dict | list) else ""
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    text.fail(place, message[0].lower() + message[1:] + said)
