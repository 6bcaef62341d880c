"""Measuring: operation recorder, host sampler, canary and the result schema."""
