"""Make the bundled sample again: real sequences searched with the real ``ssearch36``.

    python resources/sample/make.py SDIST      # biopython-1.85.tar.gz
    python resources/sample/make.py            # fetches it with pip first

Needs Biopython and zstandard (both in Storewise's environment), and ``ssearch36`` of FASTA 36.3.8
(Debian: fasta3; conda: fasta3). README.md beside this file says what is in the sample and why.
The FASTA files come out byte for byte the same, and so do the alignments; their statistics, which
ssearch36 estimates from random draws, the order of hits and the closing lines differ a little.
"""

from __future__ import annotations

import argparse
import gzip
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zstandard
from Bio import SeqIO
from Bio.SeqFeature import SeqFeature
from Bio.SeqRecord import SeqRecord

RELEASE = "1.85"
ROOT = f"biopython-{RELEASE}"
COMMAND = ["ssearch36", "-Q", "-H", "-m", "10", "-W", "0", "-E", "1000000000 -1"]
#: Transcripts up to this length (nt) are queries: short queries give more documents per byte.
LONGEST_QUERY = 310
QUERIES_PER_FILE = 4
#: Query files whose outputs are kept as zstd instead of gzip.
ZSTD_EVERY = 4

Fasta = list[tuple[str, str]]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("sdist", nargs="?", type=Path, help=f"biopython-{RELEASE}.tar.gz")
    arguments.add_argument(
        "--output", type=Path, default=Path(__file__).parent, help="where fasta/ and outputs go"
    )
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        sdist = given.sdist or fetch(Path(scratch))
        make(sdist, given.output, Path(scratch) / "search")


def fetch(directory: Path) -> Path:
    """Biopython's source distribution, with pip from the package index it is set to."""
    pip = [sys.executable, "-m", "pip", "download", "--no-binary", ":all:", "--no-deps"]
    subprocess.run([*pip, "--dest", str(directory), f"biopython=={RELEASE}"], check=True)
    return next(directory.glob("biopython-*.tar.gz"))


def make(sdist: Path, output: Path, work: Path) -> None:
    queries, libraries = read_sequences(sdist)
    work.mkdir(parents=True)
    (output / "fasta").mkdir(parents=True, exist_ok=True)
    for name, records in {"queries": queries, **libraries}.items():
        text = as_text(records).encode()
        (output / "fasta" / f"{name}.fa.gz").write_bytes(gzip.compress(text, 9, mtime=0))
        (work / f"{name}.fa").write_bytes(text)
    parts = [queries[i : i + QUERIES_PER_FILE] for i in range(0, len(queries), QUERIES_PER_FILE)]
    for number, part in enumerate(parts, start=1):
        query = f"queries_{number:02}.fa"
        (work / query).write_text(as_text(part))
        for library in libraries:
            # Relative names in a directory of its own: the output repeats them, and they must
            # not tell where it was made.
            found = subprocess.run(
                [*COMMAND, query, f"{library}.fa"], cwd=work, check=True, capture_output=True
            ).stdout
            name = f"queries_{number:02}__{library}.m10"
            if number % ZSTD_EVERY == 0:
                packed = zstandard.ZstdCompressor(level=19).compress(found)
                (output / f"{name}.zst").write_bytes(packed)
            else:
                (output / f"{name}.gz").write_bytes(gzip.compress(found, 9, mtime=0))


def read_sequences(sdist: Path) -> tuple[Fasta, dict[str, Fasta]]:
    """The queries and, by name, the libraries."""
    with tarfile.open(sdist) as archive:

        def genbank(path: str) -> Iterator[SeqRecord]:
            member = archive.extractfile(f"{ROOT}/{path}")
            assert member is not None
            return SeqIO.parse(io.TextIOWrapper(member), "genbank")

        chloroplast = next(genbank("Tests/GenBank/NC_000932.gb"))
        bac = next(genbank("Tests/GenBank/arab1.gb"))
        plasmid = next(genbank("Tests/GenBank/NC_005816.gb"))
        orchids = list(genbank("Doc/examples/ls_orchid.gbk"))
    libraries = {
        "arabidopsis": coding(chloroplast, "Pltd") + coding(bac, "1"),
        "orchids": [orchid(record) for record in orchids],
        "yersinia": coding(plasmid, "pPCP1"),
    }
    return transcripts(chloroplast), libraries


def transcripts(record: SeqRecord) -> Fasta:
    """Short transcripts (spliced), each sequence once: the inverted repeat holds some twice."""
    found: dict[str, str] = {}
    for feature in record.features:
        if feature.type in {"tRNA", "rRNA", "CDS"}:
            sequence = str(feature.extract(record.seq))
            if len(sequence) <= LONGEST_QUERY and sequence not in found.values():
                tag = value(feature, "locus_tag")
                gene = value(feature, "gene") or value(feature, "product")
                found[f"{tag} [gene={gene}] {value(feature, 'product')}"] = sequence
    return list(found.items())


def coding(record: SeqRecord, chromosome: str) -> Fasta:
    """Coding sequences with a header in the manner of NCBI's CDS files."""
    return [
        (
            f"{value(feature, 'protein_id')} "
            f"[gene={value(feature, 'gene') or value(feature, 'locus_tag') or product}] "
            f"[chromosome={chromosome}] {product}",
            str(feature.extract(record.seq)),
        )
        for feature in record.features
        if feature.type == "CDS"
        for product in [value(feature, "product")]
    ]


def orchid(record: SeqRecord) -> tuple[str, str]:
    """A ribosomal transcript: internal spacers with the 5.8S gene; the source names no locus."""
    gene = next((value(f, "gene") for f in record.features if f.type == "gene"), "")
    return f"{record.id} [gene={gene}] {record.annotations['organism']}", str(record.seq)


def value(feature: SeqFeature, key: str) -> str:
    return str(feature.qualifiers.get(key, [""])[0])


def as_text(records: Fasta) -> str:
    lines = []
    for header, sequence in records:
        lines.append(f">{header}")
        lines += [sequence[i : i + 60] for i in range(0, len(sequence), 60)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
