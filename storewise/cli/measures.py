"""``storewise measures``: the readings of workload `measures` as CSV."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from storewise.atomic import aside
from storewise.errors import StorewiseError, translate_errors

HEADING = "m,s,bt,et,mv\n"
#: Those of the generator, which is imported only when it is needed: it takes numpy and scipy.
MAX_ROWS = 1_000_000_000
MAX_NUMBER = 65_535


def measures(
    rows: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="Readings to write.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file; - is standard output.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the readings (a study's `data_seed`).")] = 1,
    machines: Annotated[int, typer.Option(min=1, max=MAX_NUMBER)] = 16,
    sensors: Annotated[int, typer.Option(min=1, max=MAX_NUMBER, help="Of each machine.")] = 4,
) -> None:
    """Write the readings that workload **measures** stores as CSV: m, s, bt, et (µs), mv.

    They are those of a load with the same numbers, in the order of time.

    Example: `storewise measures --rows 1000000 --out readings.csv`
    """
    from storewise.workloads.sensors.generator import MAX_SERIES, Readings, csv_lines

    if machines * sensors > MAX_SERIES:
        raise StorewiseError(
            f"--machines x --sensors is {machines * sensors:,}; {MAX_SERIES:,} series are the most"
        )

    readings = Readings(machines, sensors, seed)
    lines = chain([HEADING], map(partial(csv_lines, readings), readings.rows(0, rows)))
    if str(out) == "-":
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        return
    with (
        translate_errors(
            f"{out}: cannot be written", advice="check its directory and the free space"
        ),
        aside(out) as place,
        place.open("w", encoding="utf-8") as stream,
    ):
        stream.writelines(lines)
