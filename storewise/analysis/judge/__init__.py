"""What the figures mean: models, limits, costs."""
