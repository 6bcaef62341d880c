"""Workloads: the contract and one package per workload."""
