"""Which files there are, what each holds, and how jobs share them."""
