"""``storewise run``, and what it needs of the host: profiles, programs, directories."""
