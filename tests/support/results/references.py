"""A published study for tests: its two files."""

YAML = """\
citation: {authors: A. Nobody, title: On stores, venue: Nowhere, year: 2001}
hardware: two hosts
columns: {engine: store, n: nodes, key: the key, rate: operations/s, note: words}
systems: {theirs: [{engine: postgres}, {engine: mariadb, nodes: {from: 2}}]}
series:
  - {id: rates, title: Rate over nodes, where: {note: ''}, value: rate, times: 2,
     unit: operations/s, phases: read, measure: operations_per_s,
     x: {column: n, level: nodes}, same: {key: key}}
not_compared:
  - {where: {note: guessed}, why: it was guessed}
"""
CSV = """\
engine,n,key,rate,note
sqlite,1,a,100,
sqlite,2,a,50,
sqlite,4,a,25,
theirs,1,a,10,
theirs,2,a,20,
theirs,4,a,40,
sqlite,8,a,1,guessed
"""
