"""Benchmarks: where instances come from, and how their official tests are run and read."""
