"""Run folders turned into one self-contained HTML file; free of torch."""
