"""The report: one offline HTML page that shows what a model has learned and explains its predictions.

`content`
    collects the data of the page, as plain values;
`sentences`
    writes the main results as sentences;
`page`
    renders the template, with style and script, into one file.
"""

from gpexperts.report.page import write_report

__all__ = ["write_report"]
