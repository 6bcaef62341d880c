"""Riak KV."""
