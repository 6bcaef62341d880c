"""What the figures mean: noise, differences, models, limits, costs."""
