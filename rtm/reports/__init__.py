"""Tables, figures and the PDF, made from result files without torch."""
