"""One page with all results, for a browser."""
