"""The HTML page; ``page.page.make_report(study_dir)`` makes everything a reader takes away."""
