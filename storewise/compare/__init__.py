"""Two studies side by side: what has changed, and by how much."""
