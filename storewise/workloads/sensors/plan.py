"""Did a store use the secondary index? Read from its own words.

Only access to the index on mv counts: the primary key's, which some stores call an index too, does
not answer ``mv > ?``.
"""

from __future__ import annotations

import re

#: Words of plans that find rows through a secondary index, by store.
_INDEX = re.compile(
    r"""
      \b(?:Bitmap\ )?Index\ (?:Only\ )?Scan\b        # PostgreSQL
    | \bUSING\ (?:COVERING\ )?INDEX\b(?!\ sqlite_)   # SQLite
    | \bINDEX_SCAN\b                                 # DuckDB
    # ClickHouse, where the index has left granules out
    | \bSkip\n(?:(?!.*\bGranules:).*\n)+.*\bGranules:\ (?P<left>\d+)/(?!(?P=left)\b)\d+
    | \b(?:IXSCAN|COUNT_SCAN)\b(?!\ _id_)            # MongoDB
    | "key":\s*"(?!PRIMARY)[^"]+"                    # MariaDB, MySQL: FORMAT=JSON
    | \bkey=(?!PRIMARY|None|NULL)\w+                 # the same as a table
    | \bINDEX\ RANGE\ SCAN\b | \bINDEX\ FAST\ FULL\ SCAN\b
    | \bIndex\ Seek\b                                # Oracle, SQL Server
    """,
    re.VERBOSE,
)
#: And of those that read everything.
_SCAN = re.compile(
    r"""
      \b(?:Seq|Sequential)\ Scan\b
    | ^[^\n]*\bSCAN\ (?:TABLE\ )?\w+                 # SQLite
    | \bReadFromMergeTree\b
    | \bSEQ_SCAN\b | \bTABLE_SCAN\b | \bPARQUET_SCAN\b | \bREAD_PARQUET\b
    | \bCOLLSCAN\b | \b(?:IXSCAN|COUNT_SCAN)\ _id_
    | "access_type":\s*"(?:ALL|index)" | \btype=(?:ALL|index)\b
    | \bALLOW\ FILTERING\b | \bTABLE\ ACCESS\ FULL\b | \bTable\ Scan\b | \bClustered\ Index\ Scan\b
    """,
    re.VERBOSE | re.MULTILINE,
)


def uses_index(plan: str) -> bool | None:
    """True or False where the plan says it, None where its words are not known."""
    if _INDEX.search(plan):
        return True
    return False if _SCAN.search(plan) else None
