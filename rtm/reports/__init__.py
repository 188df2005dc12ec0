"""Tables, figures and the page, made from result files without torch."""
