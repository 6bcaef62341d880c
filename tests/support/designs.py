"""The designs of published studies."""

#: Trials of each design at the size of its paper, as the paper's own numbers give them.
PAPER = {
    "niec2014-null": 1,
    # Two stores, 1, 10, 20, 40 and 80 workers.
    "niec2014-workers": 2 * 5,
    "niec2014-routers": 4,
    # MongoDB with two kinds of shard key, and Riak, 1 to 14 nodes.
    "niec2014-nodes": 3 * 14,
    # Two stores; the levels are ours.
    "niec2014-vertical": 2 * 4 * 4,
    "niec2014-volume": 2 * 4,
    # Three stores, five iterations.
    "altoros2013": 3 * 5,
    "balasubramanian2014": 3,
    # Two stores, two workloads, three repeats.
    "andor2019": 2 * 2 * 3,
    # MongoDB alone and sharded, two relational stores; sizes, consistency, index.
    "mahmood2015": (2 + 2) * 4 * 2 * 2,
}
