"""Interpretation of the figures: models, bottlenecks, costs."""
