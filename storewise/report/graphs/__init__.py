"""The page's interactive figures, as data for Plotly."""
