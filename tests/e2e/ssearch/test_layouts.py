"""Layouts that the installed programs write now: both readers agree."""

import functools
import subprocess
from itertools import product

import pytest
from support.inputs.ssearch import agreed, outcome

pytestmark = pytest.mark.needs("ssearch36")  # and its siblings, of one package


@functools.cache
def sequences():
    bases = "".join("ACGT"[(i * i * 7 + i // 3 + i // 50) % 4] for i in range(600))
    protein = "".join("ACDEFGHIKLMNPQRSTVWY"[(i * i + 3 * i + i // 7) % 20] for i in range(240))
    marks = "".join(f">{x}\n{bases[9 * i : 9 * i + 120]}\n" for i, x in enumerate((">a", "2>>>b")))
    return {
        "one.nt": f">q1 first\n{bases[30:170]}\n",
        "three.nt": f">q1 first\n{bases[30:170]}\n>none\n{'AT' * 12}\n"
        f">q3 - 5 nt last\n{bases[200:330]}\n",
        "none.nt": f">none\n{'AT' * 12}\n",
        "nt": f">l1\n{bases[:400]}\n>l2\n{bases[150:]}\n{marks}",
        "nt2": f">m1\n{bases[60:260]}\n",
        "one.aa": f">q1 first\n{protein[20:120]}\n",
        "three.aa": f">q1 first\n{protein[20:120]}\n>none\nWWWCWWC\n>q3\n{protein[90:200]}\n",
        "none.aa": ">none\nWWWCWWC\n",
        "aa": f">p1\n{protein[:180]}\n>p2\n{protein[60:]}\n",
        "aa2": f">p3\n{protein[30:150]}\n",
    }


PROGRAMS = {
    "ssearch36": "nt nt",
    "fasta36": "aa aa",
    "ggsearch36": "nt nt",
    "glsearch36": "nt nt",
    "fastx36": "nt aa",
    "fasty36": "nt aa",
    "tfastx36": "aa nt",
    "tfasty36": "aa nt",
}
LAYOUT_OPTIONS = {
    "m10": ["-m", "10"],
    "file": ["-m", "F10 file"],
    "identities": ["-m", "9i", "-m", "10"],
}
QUERIES = {"one": 1, "three": 3, "none": 1}


#: Each layout with several queries and a list of libraries; each option once.
FEW = [
    *(("m10", "three", "-d 0"), ("file", "three", ""), ("identities", "three", "-z -1")),
    *(("identities", "three", "-d 0"), ("m10", "none", "-H")),
]
EVERY = list(product(LAYOUT_OPTIONS, QUERIES, ("", "-H", "-d 0", "-z -1")))


@pytest.mark.parametrize(
    "cells", [FEW, pytest.param(EVERY, marks=pytest.mark.all_cells)], ids=["few", "every"]
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_live_outputs(program, cells, tmp_path):
    """Each output (layout, queries, option) is complete for both readers."""
    for name, text in sequences().items():
        (tmp_path / name).write_text(text)
    query, library = PROGRAMS[program].split()
    (tmp_path / "all.list").write_text(f"{library}\n{library}2\n")
    made = 0
    for layout, queries, option in cells:
        where = "@all.list" if queries == "three" else library
        command = [program, "-q", *LAYOUT_OPTIONS[layout], *option.split(), "-E", "0.01"]
        (tmp_path / "file").unlink(missing_ok=True)
        done = subprocess.run(
            [*command, f"{queries}.{query}", where], cwd=tmp_path, capture_output=True
        )
        if done.returncode:
            continue  # no output to read: some of these programs fail on so small a library
        result = agreed((tmp_path / "file").read_bytes() if layout == "file" else done.stdout)
        assert not isinstance(result, str), (command, result)
        assert result[0] == QUERIES[queries], command
        made += 1
    assert made > 3


#: Names and descriptions that look like lines of the output.
QUERY = ">one >>> ; sw_score: 999 é\n{0:.90}\n>one >>>2 twin\n{1:.110}\n"
ODD = {
    "every alternative": ["ssearch36", "-Q", "-H", "-W", "0", "-E", "1000000000 1.0"],
    "no hit": ["ssearch36", "-Q", "-H", "-E", "1e-200 -1"],
    "no statistics": ["ssearch36", "-Q", "-H", "-z", "-1", "-b", "20"],
    "context": ["ssearch36", "-Q", "-E", "10 0.1"],
    "heuristic": ["fasta36", "-q", "-E", "10 0.1"],
    "local": ["lalign36", "-q"],
    "global query": ["glsearch36", "-q", "-E", "1000"],
    "lengths without gaps": ["ssearch36", "-q", "-XB"],
}


@pytest.mark.parametrize("case", ODD)
def test_odd_names_and_several_searches_in_a_file(case, tmp_path):
    first = "".join("ACGT"[(i * i * 7 + i // 3) % 4] for i in range(400))
    (tmp_path / "q.fa").write_text(QUERY.format(first, first[120:]))
    (tmp_path / "l.fa").write_text(
        f">hit>1 gene:G1 ; x\n{first}\n>hit2\tchromosome:A:2:1:2\n{first[::-1]}\n"
        f">hit3 same\n{first[60:200]}{first[:77]}\n"
    )
    command = [*ODD[case], "-m", "10", "q.fa", "l.fa"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    counts = agreed(output)
    assert not isinstance(counts, str), counts
    queries, hits, alignments = counts
    assert queries == 2
    if case == "every alternative":
        assert alignments > hits > 2
    assert (alignments > 0) == (case != "no hit")
    # As `cat` makes them.
    assert agreed(output * 3, 1 << 20, 777) == (3 * queries, 3 * hits, 3 * alignments)
    expected = outcome(output, mode="reference")
    assert outcome(output, mode="fast", encoding="bson") == expected
    assert outcome(output, mode="fast", encoding="arrow") == expected
