"""PBS as an executor of the workflow: submit, status and cancel commands."""
