"""Metrics of generated images: `prdc`, `frechet_distance`, `kernel_distance` and `inception_score` from features."""

from rtm.metrics.fid import frechet_distance
from rtm.metrics.inception_score import inception_score
from rtm.metrics.kid import kernel_distance
from rtm.metrics.prdc import prdc

__all__ = ["frechet_distance", "inception_score", "kernel_distance", "prdc"]
