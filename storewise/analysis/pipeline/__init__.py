"""From a directory of results to tables, in order and in several processes."""
