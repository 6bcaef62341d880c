"""Columns and measures of the two long tables: `measures` (of trials) and `summary`."""

from __future__ import annotations

#: What tells figures of a trial apart.
KEY = ("phase", "step", "operation", "measure")
#: Operation of rows that are about all operations together.
ALL = "all"
#: Of a step: client threads in all, target rate (operations/s), operations.
PARAMETERS = ("clients", "rate", "planned")
#: What else the steps of a phase differ in, in words; empty where there is nothing. Missing, as
#: PARAMETERS are, of phases of a single step without a target rate.
OTHER = "other"
#: What tells the rows of the summary apart, beside the factors.
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
#: What a load leaves on disk.
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
    "metadata_operations": "1",
}
#: Hosts that a phase used; what a million documents or operations cost, in hours of hosts and in
#: money; hours to load the full corpus, what it takes on disk, and money a year for that.
HOSTS, HOURS, MONEY = "hosts", "host_hours_per_million", "money_per_million"
CORPUS_HOURS, CORPUS_BYTES, CORPUS_MONEY = "corpus_hours", "corpus_bytes", "corpus_money_per_year"
COSTS = (HOURS, MONEY, CORPUS_HOURS, CORPUS_BYTES, CORPUS_MONEY)
#: Measures without chance: repeats of one setting differ in what they did, or not at all.
COUNTED = frozenset({"errors", "documents", *SIZES, HOSTS, CORPUS_BYTES, CORPUS_MONEY})
#: The rate of a trial over that of the same round at the lowest level of a factor, over the ratio
#: of the levels; OTHER says which: ``nodes 4 against 1``.
EFFICIENCY = "efficiency"
#: The rate with slowed nodes over that without; OTHER says how many, and how.
SLOWED = "slowed_rate"
#: What a search found; OTHER is its limit.
HIGHEST = "highest_rate"
#: Of a question, over the clients that ask at once; and from how many questions on a load pays
#: against reading the files again (inf: never).
QUESTION_TIME, PAYS_FROM = "question_time", "pays_from"
#: From the start of the last server's job to a formed cluster with its tables.
SETUP = "setup_time"
