"""Pure functions on the result table.

``analyse(study_dir, outdir)`` writes every table; ``load_results``, ``build_tables`` and
``verdict`` are its steps. They are imported from their modules, so that one topic can be used
without the others.
"""
