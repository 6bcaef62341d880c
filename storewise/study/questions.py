"""Checks of a study's questions: of its own, and of those that its inputs cannot answer."""

from __future__ import annotations

from contextlib import suppress

from storewise.engines.registry import engine, is_engine
from storewise.errors import StorewiseError
from storewise.ssearch.formats.format import InputFormat
from storewise.ssearch.formats.registry import HEAD_BYTES, format_of, has_titles
from storewise.ssearch.inputs.paths import first_input
from storewise.ssearch.parse.stream import read_head
from storewise.study.study import Study
from storewise.workloads.alignments.own import OwnQuestion
from storewise.workloads.alignments.queries import OF_GENES, QUESTIONS
from storewise.yamlfile import YamlFile


def with_own_questions(study: Study, text: YamlFile) -> Study:
    """The study with its own questions in phase ``query``, which asks them last where it names no
    questions. Refuses those that an engine has no words for."""
    if not study.questions:
        return study
    phases = []
    for phase in study.phases:
        if phase.name == "query" and study.workload == "alignments":
            names = phase.params.get("questions", [*QUESTIONS, *study.questions])
            own = {name: study.questions[name] for name in names if name in study.questions}
            for name, question in own.items():
                _check_own(study, name, question, text)
            dumped = {name: one.model_dump(exclude_defaults=True) for name, one in own.items()}
            params = {**phase.params, "questions": names, "own": dumped}
            phase = phase.model_copy(update={"params": params})
        phases.append(phase)
    if not any(phase.name == "query" for phase in phases):
        text.fail(("questions",), "are asked in phase `query`, which this study lacks")
    for name in study.questions:
        if name in QUESTIONS:
            text.fail(("questions", name), "is the name of a question that is known already")
    return study.model_copy(update={"phases": phases})


def _check_own(study: Study, name: str, question: OwnQuestion, text: YamlFile) -> None:
    if not question.languages:
        return
    for store in study.engines:
        if not is_engine(store):
            continue  # another check says so
        described = engine(store)
        if described.language not in question.languages:
            words = f"`{described.language}`" if described.language else "language of its own"
            text.fail(
                ("questions", name),
                f"has no text for {store}, which needs {words}; write one, ask by conditions "
                "(where, order, group, limit), or leave the engine out",
            )
        shards = ("workers", "processes") if described.flags.embedded else ("nodes",)
        levels = study.levels_of(store)
        several = [
            key
            for key in shards
            if any(isinstance(level, int) and level > 1 for level in levels.get(key, ()))
        ]
        if described.asks_one_store and several:
            text.fail(
                ("questions", name),
                f"is a statement, which reads one store, and {store} has several with "
                f"{' and '.join(several)} above 1; ask by conditions (where, order, group, limit)",
            )


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
