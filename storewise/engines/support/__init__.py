"""What engines share beside SQL: tables, conditions, keys, merging, installations."""
