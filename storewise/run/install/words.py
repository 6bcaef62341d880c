"""Messages of `storewise install`: what it will fetch, what it has done, how to use it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from storewise.engines.registry import ENGINES
from storewise.engines.support.installation import own_store
from storewise.run.doctor import examine_engines
from storewise.run.install.install import state_of
from storewise.run.install.recipes import ELSEWHERE, RECIPES, Recipe


def offer(recipe: Recipe) -> str:
    """The message before a store is fetched."""
    return (
        f"{_name(recipe)}: fetching {_mb(recipe.size)} from {recipe.origin}; {_checksums(recipe)}"
    )


def outcome(recipe: Recipe, prefix: Path, *, new: bool) -> str:
    """The message after a store was installed."""
    place = prefix / recipe.store
    if not new:
        return f"{_name(recipe)} is installed already in {place}; {_checksums(recipe)}"
    return f"{_name(recipe)} is now in {place}, {_mb(recipe.disk)}; {_checksums(recipe)}, verified"


def listing(prefix: Path) -> Iterator[str]:
    """The stores that can be installed, one a line."""
    width = max(map(len, [*RECIPES, *ELSEWHERE]))
    for store, recipe in RECIPES.items():
        lines = (
            f"{recipe.title} {recipe.version}, {recipe.licence}; {_mb(recipe.size)} to fetch, "
            f"{_mb(recipe.disk)} on disk",
            f"from {recipe.origin}; {_checksums(recipe)}",
            f"needs {recipe.needs}",
            state_of(recipe, prefix) or "not installed",
        )
        for number, line in enumerate(lines):
            yield f"{'' if number else store:<{width}}  {line}"
    for name, where in ELSEWHERE.items():
        yield f"{name:<{width}}  not from here; {where}"


def use(recipes: Iterable[Recipe], elsewhere: Path | None) -> Iterator[str]:
    """Advice after an installation: variables for stores in unusual places, stores that do not run
    yet, settings that take precedence."""
    for recipe in recipes:
        place = own_store(recipe.store) if elsewhere is None else elsewhere / recipe.store
        if elsewhere is not None:
            yield (
                f"{recipe.store}: engines find it there with `export {recipe.variable}="
                f"{shlex.quote(str(place))}`, or with `home: {place}` in a study"
            )
        if recipe.store not in ENGINES:
            continue
        settings = {} if elsewhere is None else {"home": str(place)}
        [finding] = examine_engines({recipe.store: settings})
        if not finding.runs:
            yield f"{recipe.store} does not run yet: {finding.advice}"
        elif not Path(finding.place).is_relative_to(place):
            yield (
                f"{recipe.store}: engines use what is in {finding.place} as long as "
                f"{recipe.variable} names it"
            )


def _name(recipe: Recipe) -> str:
    return f"{recipe.store}: {recipe.title} {recipe.version} ({recipe.licence})"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _checksums(recipe: Recipe) -> str:
    if (many := len(recipe.artefacts)) > 1:
        return f"{many} SHA-256 checksums"
    return f"SHA-256 {recipe.artefacts[0].sha256}"
