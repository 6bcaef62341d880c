"""The figures of a study: rates, times, sizes, loads."""
