"""The figures of a study: rates, latencies, sizes, load of hosts."""
