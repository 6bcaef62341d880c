"""Words, frames, warnings: what every part of the analysis uses."""
