"""Which store to take, and why."""
