"""From result files to tables and figures. Nothing here needs torch."""
