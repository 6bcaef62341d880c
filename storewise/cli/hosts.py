"""``storewise doctor`` and ``storewise sessions``: what can run here, and what does."""

from __future__ import annotations

from typing import Annotated

import typer

from storewise.cli.console import RESULTS, JsonLines, Results, print_line, say


def doctor(
    engines: Annotated[
        list[str] | None, typer.Argument(help="Engines (stores); default: all, and the tools.")
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(help="Instead: the engines of this study, with its settings."),
    ] = None,
    json_: JsonLines = False,
) -> None:
    """Which stores and tools can run on this machine? And if not: what to install.

    Prints a line for each: yes with its version and where its servers' programs are, or no with
    what is missing. Exit status 0 only if
    all that you named runs; without names it is always 0.

    Example: `storewise doctor`, or `storewise doctor postgres mongodb`, or
    `storewise doctor --study mine.yaml`
    """
    from storewise.run.doctor import examine, examine_engines, host_line

    if study is not None:
        from storewise.run.runner import workflow_home
        from storewise.study.load import load_study

        findings = examine_engines(load_study(study, root=workflow_home()).engines)
    else:
        findings = examine(engines or ())
    if not json_:
        typer.echo(host_line())
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        if json_:
            print_line(finding)
        else:
            place = f" (in {finding.place})" if finding.place else ""
            state = f"yes  {finding.version}{place}" if finding.runs else f"no   {finding.advice}"
            typer.echo(f"{finding.name:<{width}}  {state}")
            if finding.note:
                typer.echo(f"{'':<{width}}       {finding.note}")
    named = bool(engines) or study is not None
    raise typer.Exit(1 if named and not all(finding.runs for finding in findings) else 0)


def sessions(results: Results = RESULTS, json_: JsonLines = False) -> None:
    """List the live database sessions: nodes, hosts, age, lease and phase of each.

    Example: `storewise sessions`
    """
    from storewise.session.coordination.listing import live_sessions

    live = live_sessions(results)
    if not live and not json_:
        say(f"no session is live below {results}")
    for session in live:
        if json_:
            print_line(session)
            continue
        lease = "gone" if session.lease_age is None else f"renewed {session.lease_age:.0f} s ago"
        typer.echo(
            f"{session.id}: {session.phase}, open for {session.age:.0f} s, lease {lease} "
            f"(holds {session.lease_seconds:.0f} s), run {session.run}"
            + (f", ending: {session.ending}" if session.ending else "")
        )
        for node in session.nodes:
            typer.echo(
                f"  {node.node} on {node.host}: {node.state}"
                + (f" at {node.address}, authentication: {node.guard}" if node.address else "")
            )
        typer.echo(f"  jobs: {', '.join(session.jobs) or 'none'}")
