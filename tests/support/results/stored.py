"""A small study that was measured once, and the tables that its version made of it.

    PYTHONPATH=tests python -m support.results.stored [TREE]

measures it with the Storewise of TREE (a checkout with its `.venv`; this one without), and renews
`tests/data/stored/`: result files in `results/`, tables in `tables/`. Do it with the version before
one that stores or analyses otherwise.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from support.paths import DATA, ROOT, SMALL

STORED = DATA / "stored"
RESULTS, TABLES = STORED / "results", STORED / "tables"
STUDY = """\
inputs: {paths: data}
engines: [files, sqlite]
indexes: [align.gene]
factors: {workers: 1, processes: 1, threads: 1}
repeats: 2
verify: 20
phases:
  - write: {batch_size: 200}
  - read: {seconds: 6, warmup: 1, steps: [{threads: 1}, {threads: 2, rate: 100}]}
  - query: {operations: 10}
"""
#: What the analysis reads. Packs are copies, taken only where they are younger than their files.
READ = ("study.json", "left_out.json", "references.json", "run.json", "inputs/manifest.parquet")
OF_TRIALS = ("write.0.*", "read.0.*", "query.0.*", "verify.parquet")


def renew(tree):
    """Measure the study with the Storewise of a checkout, and keep its results and tables."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory).resolve()
        (place / "data").mkdir()
        for path in SMALL[:2]:
            shutil.copy(path, place / "data")
        (place / "stored.yaml").write_text(STUDY)
        command = [str(tree / ".venv/bin/python"), "-m", "snakemake", "--omit-from", "report"]
        command += ["--snakefile", str(tree / "Snakefile"), "--config", "study=stored.yaml"]
        command += ["--profile", str(tree / "profiles/local")]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run(command, cwd=place, env=environment, check=True)
        shutil.rmtree(STORED, ignore_errors=True)
        measured = place / "results" / "stored"
        patterns = [*READ, *(f"trials/*/{pattern}" for pattern in OF_TRIALS)]
        files = [path for pattern in patterns for path in measured.glob(pattern)]
        kept = {path: RESULTS / path.relative_to(measured) for path in files}
        kept |= {path: TABLES / path.name for path in (measured / "analysis").iterdir()}
        for path, target in kept.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            keep(path, target, str(place))


def keep(path, target, place):
    """Copy a result file with other names for its host and for the directory `place`."""
    host = rf"\b{re.escape(socket.gethostname())}\b"

    def plain(text):
        return re.sub(host, "host-1", text.replace(place, "/home/user"))

    if path.suffix == ".hlog":
        shutil.copyfile(path, target)
    elif path.suffix != ".parquet":
        target.write_text(plain(path.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        table = pq.read_table(path)
        metadata = {
            name: plain(value.decode()).encode()
            for name, value in (table.schema.metadata or {}).items()
            if name != b"ARROW:schema"
        }
        if "host" in table.column_names:
            column = table.schema.get_field_index("host")
            hosts = pa.array(map(plain, table["host"].to_pylist())).dictionary_encode()
            table = table.set_column(column, table.schema.field(column), hosts)
        pq.write_table(table.replace_schema_metadata(metadata), target, compression="zstd")


if __name__ == "__main__":
    renew(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)
