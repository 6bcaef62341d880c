# From FASTA to SSEARCH outputs, for users who have only sequences.
SEARCH_OUTPUTS = []
