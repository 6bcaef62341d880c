"""Results to S3 and back."""
