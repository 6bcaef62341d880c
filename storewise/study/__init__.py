"""Study files: read, checked, and expanded into trials."""
