"""The Yahoo! Cloud Serving Benchmark: core workloads A to G."""
