"""SSEARCH outputs: bytes to alignments to documents; manifest and shards."""
