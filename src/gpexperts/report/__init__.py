"""The report: one page that opens offline and shows what a model does, query by query.

`content`
    gathers what the page shows, as plain values;
`sentences`
    says the headline numbers in words;
`page`
    puts them into the template, with style and script, into one file.
"""

from gpexperts.report.page import write_report

__all__ = ["write_report"]
