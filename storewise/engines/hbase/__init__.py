"""Apache HBase."""
