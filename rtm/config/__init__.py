"""`params/` as one typed object: `load(scale)`."""

from rtm.config.loading import Config, Experiment, load, schema

__all__ = ["Config", "Experiment", "load", "schema"]
