"""The plain values that the analysis hands on."""
