"""Questions that the inputs of a study cannot answer."""

from __future__ import annotations

from contextlib import suppress

from storewise.errors import StorewiseError
from storewise.ssearch.formats.format import InputFormat
from storewise.ssearch.formats.registry import HEAD_BYTES, format_of, has_titles
from storewise.ssearch.inputs.paths import first_input
from storewise.ssearch.parse.stream import read_head
from storewise.study.study import Study
from storewise.workloads.alignments.queries import OF_GENES, QUESTIONS
from storewise.yamlfile import YamlFile


def check_questions(study: Study, text: YamlFile) -> None:
    """Refuse questions about genes where the first input is a table that does not name them.

    Whatever is wrong with that file is said by who reads all of it.
    """
    asked = [
        (i, phase.name, name)
        for i, phase in enumerate(study.phases)
        if phase.name == "query"
        for name in phase.params.get("questions", QUESTIONS)
        if name in OF_GENES
    ]
    if not asked or not study.inputs.paths:
        return
    named, path, form = True, "", InputFormat()
    with suppress(StorewiseError):
        path = first_input(study.inputs.paths)
        head = read_head(path, HEAD_BYTES)
        form = format_of(head, path, study.inputs.input_format)
        named = has_titles(head, form)
    if not named:
        i, phase, name = asked[0]
        rest = [one for one in QUESTIONS if one not in OF_GENES]
        text.fail(
            ("phases", i, phase),
            f"question {name!r} is about genes, which {path} ({form.text}) does not name: a table "
            f"needs a column `stitle`; ask `questions: [{', '.join(rest)}]`",
        )
