"""Benchmarks a person runs on the own computer: the ladder of methods, and one device against another."""
