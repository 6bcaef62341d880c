"""The study's own workload: SSEARCH documents written, read by id and asked as biologists do."""
