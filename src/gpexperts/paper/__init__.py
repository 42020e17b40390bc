"""The experiments of the paper: its data sets, its settings, its tables and figures, and the demo.

The paper is Jalali & Kasneci, "Entry Dependent Expert Selection in Distributed Gaussian Processes Using
Multilabel Classification".

    datasets/       the data sets and their splits into training and test rows
    settings.py     the settings of the paper, each one named
    methods.py      one fit, evaluated by several methods of selection and aggregation
    experiments/    one file per table or figure
    runner.py       runs an experiment; finished runs are stored (store.py) and not repeated
    tables.py, figures.py   results as CSV, Markdown and figures
    claims.py, notes.py, page.py   docs/reproduction.md: claims, verdicts and remarks
    demo.py         the experiment "synthetic-intervals" with one seed
"""
