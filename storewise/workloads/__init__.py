"""What clients do: the contract and one module per workload."""
