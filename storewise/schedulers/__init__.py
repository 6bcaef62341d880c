"""Jobs of schedulers: those of a run, their state, and their end."""
