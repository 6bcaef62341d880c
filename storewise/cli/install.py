"""``storewise install``: database servers for users without root."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from storewise.cli.console import Force, say
from storewise.errors import StorewiseError


def install(
    stores: Annotated[
        list[str] | None, typer.Argument(help="Stores, such as postgres; --list shows them.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Only list what can be had, and from where.")
    ] = False,
    prefix: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Install below DIR, not below ~/.local/share/storewise."),
    ] = None,
    force: Force = False,
) -> None:
    """Fetch database servers into your own directory. Needs no root.

    pip and Maven fetch them from their registries, with the settings that you have for them. Each
    file is compared with the checksum that Storewise knows. A store that fails or is stopped
    leaves nothing behind. The engines find what is below ~/.local/share/storewise by themselves.

    Example: `storewise install postgres mongodb`, `storewise install --list`
    """
    from storewise.cli.progress import working
    from storewise.engines.support.installation import OWN_STORES, place_of
    from storewise.run.install import words
    from storewise.run.install.install import check_host, state_of
    from storewise.run.install.install import install as install_one
    from storewise.run.install.recipes import RECIPES, recipes_of

    usual = place_of(OWN_STORES)
    below = (prefix or usual).expanduser().absolute()
    if list_:
        for line in words.listing(below):
            typer.echo(line)
        return
    if not stores:
        raise StorewiseError(
            f"name what to install: {', '.join(RECIPES)}; `storewise install --list` says more"
        )
    recipes = recipes_of(stores)
    for recipe in recipes:
        check_host(recipe)
    for recipe in recipes:
        if force or not state_of(recipe, below):
            say(words.offer(recipe))
        with working(f"installing {recipe.store}") as tick, _ended_in_order():
            new = install_one(recipe, below, force=force, tick=tick)
        say(words.outcome(recipe, below, new=new))
    for line in words.use(recipes, None if below == usual else below):
        say(line)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is within as Ctrl-C does: nothing of it stays."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
