"""Stores: the contract and one module per store."""
