"""Tables of hits, written by other programs or with other options of FASTA: a folder a program."""
