"""Input files: list, manifest of their content, and shards of jobs."""
