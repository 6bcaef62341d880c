"""Base classes of SQL stores."""
