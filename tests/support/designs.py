"""The designs of published studies."""

#: Trials of each design at the size of its paper. Where the paper has no repeats, ours are three.
PAPER = {
    "niec2014-null": 3,
    # Two stores, 1, 10, 20, 40 and 80 workers.
    "niec2014-workers": 2 * 5 * 3,
    "niec2014-routers": 4 * 3,
    # MongoDB with two kinds of shard key, and Riak, 1 to 14 nodes.
    "niec2014-nodes": 3 * 14 * 3,
    # Two stores; the levels are ours.
    "niec2014-vertical": 2 * 4 * 4 * 3,
    "niec2014-volume": 2 * 4 * 3,
    # Three stores, five iterations.
    "altoros2013": 3 * 5,
    "balasubramanian2014": 3 * 3,
    # Two stores, two workloads, three repeats.
    "andor2019": 2 * 2 * 3,
    # MongoDB alone and sharded, two relational stores; sizes, consistency, index.
    "mahmood2015": (2 + 2) * 4 * 2 * 2 * 3,
}
