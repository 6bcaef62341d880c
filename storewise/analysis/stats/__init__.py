"""Statistics that know nothing of stores."""
