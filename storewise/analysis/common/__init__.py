"""Helpers for text, data frames and warnings, shared by the whole analysis."""
