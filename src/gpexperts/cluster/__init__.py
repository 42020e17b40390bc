"""The model on a cluster: experts that live on many workers, and data that never come to one place.

`tasks` is what workers do, each function pure; `experts` places groups of experts and gathers what they
say; `inputs` reads dask collections block by block and shuffles their rows; `fitting` and `predicting`
are `fit` and `predict` for such collections. Nothing here is imported unless a cluster is used.
"""
