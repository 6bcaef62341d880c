"""Objects on S3: where they are, how they are listed, read and written.

Nothing here knows what the objects hold. Endpoint, region and credentials are found as every AWS
tool finds them (environment, ``~/.aws``, the instance's role), so that no file of ours has any.
"""
