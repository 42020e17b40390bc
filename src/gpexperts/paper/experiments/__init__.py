"""Published experiments, re-run: a folder per paper, a short file per table or figure.

An experiment is an `Experiment`: configurations as data, a function that runs one of them, and how the
rows that come out are tabulated and drawn. `runner.reproduce` does the runs, keeps each finished one in a
file so that it is not done again, and writes a CSV file, a Markdown table and a figure.
"""
