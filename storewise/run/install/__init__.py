"""`storewise install`: database servers from public registries, for users without root."""
