"""Metrics of generated images, from their features or from a checkpoint."""
