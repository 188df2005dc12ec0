from support.small_package import package, repository

__all__ = ["package", "repository"]
