"""The pictures of benchmarks/README.md."""

from __future__ import annotations

from collections.abc import Callable

import common
from summaries import OURS, Row, by_rows, median, total, values


def draw_peers(results: list[Row]) -> None:
    """Log loss against time, a panel for each data set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    sets, methods = values(results, "data"), values(results, "method")
    columns = min(4, len(sets))
    figure, axes = plt.subplots(
        -(-len(sets) // columns), columns, figsize=(3.4 * columns, 3.0 * -(-len(sets) // columns)),
        squeeze=False, layout="constrained",
    )  # fmt: skip
    methods = [OURS, *(method for method in methods if method != OURS)]
    markers = dict(zip(methods, "*o^sDdv<PXh>p", strict=False))
    colours = ["black", *mpl.colormaps["tab20"].colors[::2], *mpl.colormaps["tab20"].colors[1::2]]
    for axis, data in zip(axes.flat, sets, strict=False):
        for k, method in enumerate(methods):
            middle = median([r for r in results if r["data"] == data and r["method"] == method])
            if middle is not None:
                size = 170 if method == OURS else 40
                at = total(middle), middle["msll"]
                axis.scatter(*at, size, [colours[k]], markers[method], label=method, zorder=3 - (k > 0))
        axis.set(title=data, xscale="log", xlim=(0.3, 900), xlabel="fit + predict, seconds")
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(sets) :]:
        axis.set_axis_off()
    figure.supylabel("MSLL (lower is better)")
    shown = [pair for axis in axes.flat for pair in zip(*axis.get_legend_handles_labels(), strict=True)]
    by_label = {label: handle for handle, label in shown}
    figure.legend(by_label.values(), by_label.keys(), loc="outside lower center", ncols=5)
    figure.savefig(common.HERE / "peers.png", dpi=110)
    plt.close(figure)


def draw_scale(results: list[Row]) -> None:
    """Time and memory against rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    done = [r for r in results if r["status"] == "done"]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
    shown: list[tuple[str, Callable[[Row], float]]] = [
        ("fit, seconds", lambda r: r["fit_seconds"]),
        ("per query, µs", lambda r: 1e6 * r["predict_seconds"] / r["queries"]),
        ("peak memory, GB", lambda r: r["peak_gb"]),
    ]
    for axis, (title, value) in zip(axes, shown, strict=True):
        for data in values(done, "data"):
            here = by_rows(done, data)
            axis.loglog([r["rows"] for r in here], [value(r) for r in here], "o-", label=data)
        low, high = axis.get_ylim()
        axis.set(title=title, xlabel="rows", ylim=(min(low, high / 30), 1.5 * high))
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(common.HERE / "scale.png", dpi=110)
    plt.close(figure)
