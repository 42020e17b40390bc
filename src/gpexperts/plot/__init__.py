"""Plots, by scikit-learn's Display convention.

Each class has the constructors ``from_estimator`` (a fitted model and data) and ``from_predictions``
(arrays). Both draw on the given Matplotlib axis or on a new one, and store it as ``ax_`` and its figure as
``figure_``. Displays with several panels store them as ``axes_``.

| display | shows |
| --- | --- |
| `PredictionDisplay1D` | mean and interval over a single input |
| `MapDisplay` | mean and standard deviation over two inputs |
| `EffectDisplay` | the effects of single inputs |
| `ResidualsDisplay` | standardised residuals over the prediction or an input |
| `PredictedObservedDisplay` | predictions over observations, with intervals |
| `CalibrationDisplay` | empirical coverage over the nominal level |
| `ExpertMapDisplay` | position and size of the experts, and how often each is selected |
| `ExpertGraphDisplay` | partial correlations of the experts' predictions (ggm) |
| `ResidualsDisplay` | leave-one-out residuals over predictions or an input |
| `TraceDisplay` | log marginal likelihood over the training steps |

Matplotlib is required: the extra [plot].
"""

from gpexperts.plot.calibration import CalibrationDisplay
from gpexperts.plot.effects import EffectDisplay
from gpexperts.plot.expert_graph import ExpertGraphDisplay
from gpexperts.plot.expert_map import ExpertMapDisplay
from gpexperts.plot.maps import MapDisplay
from gpexperts.plot.predicted_observed import PredictedObservedDisplay
from gpexperts.plot.prediction import PredictionDisplay1D
from gpexperts.plot.residuals import ResidualsDisplay
from gpexperts.plot.trace import TraceDisplay

__all__ = [
    "CalibrationDisplay",
    "EffectDisplay",
    "ExpertGraphDisplay",
    "ExpertMapDisplay",
    "MapDisplay",
    "PredictedObservedDisplay",
    "PredictionDisplay1D",
    "ResidualsDisplay",
    "TraceDisplay",
]
