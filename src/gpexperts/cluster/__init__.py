"""The model on a cluster: experts that live on many workers, and data that never come to one place.

`groups` places experts on the workers, `experts` asks them, and `tasks` is what workers do then, each
function pure. `inputs` reads dask collections block by block, `neighbourhoods` finds rows in them to train
on, and `shuffle` brings the rows of each expert together; `fitting` and `predicting` are `fit` and `predict`
for such collections, and `private` is `fit` where no row may travel. Nothing here is imported
unless a cluster is used.
"""
