"""What every engine promises: the store, its clients, its servers."""
