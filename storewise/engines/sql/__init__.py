"""What stores with SQL share."""
