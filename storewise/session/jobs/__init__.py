"""The jobs of a session: node, form, close."""
