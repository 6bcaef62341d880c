"""Any database that SQLAlchemy can reach."""
