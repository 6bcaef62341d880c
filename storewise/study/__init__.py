"""What a study file says: read, checked, and made into trials."""
