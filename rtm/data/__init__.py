"""Datasets and network weights on disk."""
