"""From the bytes of an output to documents."""
