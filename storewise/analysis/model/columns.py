"""Columns and measures of the two long tables: `measures` (of trials) and `summary`."""

from __future__ import annotations

#: Columns that identify a figure within a trial.
KEY = ("phase", "step", "operation", "measure")
#: Value of the column `operation` in rows that sum up all operations.
ALL = "all"
#: Parameters of a step: client threads in all, target rate (operations/s), operations.
PARAMETERS = ("clients", "rate", "planned")
#: Column with the further parameters that vary between the steps of a phase, in words. Missing,
#: like PARAMETERS, for phases with a single step without a target rate.
OTHER = "other"
#: Columns that identify a row of the summary, with the factors.
KEYS = (*KEY, *PARAMETERS, OTHER)
#: A mean over repeats, its 95 % interval, the standard error of its logarithm with its degrees of
#: freedom.
MEAN = ("n", "mean", "low", "high", "error", "freedom")

#: Measures that only loads have.
LOAD_MEASURES = ("insert_documents_per_s", "parse_share")
#: Measures of whole steps, with their units.
RATES = {
    "errors": "1",
    "duration": "s",
    "documents": "documents",
    "documents_per_s": "documents/s",
    "operations_per_s": "operations/s",
    "parse_share": "1",
    "insert_documents_per_s": "documents/s",
    "client_share": "1",
}
#: Measures of a load's size on disk.
SIZES = {
    "store_bytes": "B",
    "bytes_per_document": "B/document",
    "share_of_input": "1",
    "share_of_raw_input": "1",
    "node_bytes": "B",
    "node_bytes_per_document": "B/document",
    "holds_from": "1",
    "files": "1",
    "inodes": "1",
}
#: Hosts of a phase; cost of a million documents or operations in host hours and in money; hours to
#: load the full corpus, its size on disk, and the price of that per year.
HOSTS, HOURS, MONEY = "hosts", "host_hours_per_million", "money_per_million"
CORPUS_HOURS, CORPUS_BYTES, CORPUS_MONEY = "corpus_hours", "corpus_bytes", "corpus_money_per_year"
COSTS = (HOURS, MONEY, CORPUS_HOURS, CORPUS_BYTES, CORPUS_MONEY)
#: Measures without random error: counts.
COUNTED = frozenset({"errors", "documents", *SIZES, HOSTS, CORPUS_BYTES, CORPUS_MONEY})
#: Speed-up against the same round at the lowest level of a factor, divided by the ratio of the
#: levels; OTHER names them: ``nodes 4 against 1``.
EFFICIENCY = "efficiency"
#: The rate with slowed nodes over the rate without; OTHER has their number and the kind of fault.
SLOWED = "slowed_rate"
#: The result of a search for the highest rate; OTHER is its limit.
HIGHEST = "highest_rate"
#: Time of a question divided by the number of concurrent clients; number of questions from which on
#: a load pays compared with reading the files again (inf: never).
QUESTION_TIME, PAYS_FROM = "question_time", "pays_from"
#: Time from the start of the last server's job to a ready cluster with its tables.
SETUP = "setup_time"
