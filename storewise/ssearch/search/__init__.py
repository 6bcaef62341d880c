"""Searches that Storewise runs itself: FASTA in, outputs of ssearch36 out."""
