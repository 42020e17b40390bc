"""Plots in Python, drawn on a given Matplotlib axis, by scikit-learn's Display convention.

Each class is made by ``from_estimator`` (a fitted model and data) or ``from_predictions`` (plain
arrays), draws at once, and keeps the axis as ``ax_`` and the figure as ``figure_``.

| display | shows |
| --- | --- |
| `PredictionDisplay1D` | mean and interval over one input |
| `PredictedObservedDisplay` | predicted against observed, with intervals |
| `CalibrationDisplay` | how often intervals of each level hold the truth |
| `ExpertMapDisplay` | where the experts are, how large, and how often asked |
| `ExpertGraphDisplay` | which experts depend on each other (ggm) |
| `TraceDisplay` | the log likelihood over the steps of training |

They need Matplotlib, the extra [plot].
"""

from gpexperts.plot.calibration import CalibrationDisplay
from gpexperts.plot.expert_graph import ExpertGraphDisplay
from gpexperts.plot.expert_map import ExpertMapDisplay
from gpexperts.plot.predicted_observed import PredictedObservedDisplay
from gpexperts.plot.prediction import PredictionDisplay1D
from gpexperts.plot.trace import TraceDisplay

__all__ = [
    "CalibrationDisplay",
    "ExpertGraphDisplay",
    "ExpertMapDisplay",
    "PredictedObservedDisplay",
    "PredictionDisplay1D",
    "TraceDisplay",
]
