"""The report's pictures: SVG that takes its colours from the page, and small images of samples."""

import base64
import io
import re
from html import escape
from typing import Any

import numpy as np

from trireme.evaluation.figures import Chart

TEXT = "#808080"  # becomes the page's own colour, light or dark
LINES = ("#1f6feb", "#d29922", "#8250df", "#1a7f37")
DOTS = {"linestyle": "", "marker": ".", "markersize": 4, "alpha": 0.5}
COUNTED = ("epoch", "position")  # of which there are no halves
SIZE = (5.2, 3.0)  # inches
NOT_NEEDED = ("Date", "Creator", "Format", "Type")  # in a page
IMAGE_LIMIT = 256  # pixels; larger samples are not shown

_NAMESPACE = re.compile(r' xmlns(:\w+)?="[^"]*"')  # HTML knows them


def draw(chart: Chart) -> str:
    """Draws a chart as an ``svg`` element."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "trireme", "font.family": "sans-serif"}
    settings |= dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor"), TEXT)
    settings |= dict.fromkeys(("xtick.color", "ytick.color"), TEXT)
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        how: Any = DOTS if chart.dots else {"linewidth": 1.8}
        for (name, points), colour in zip(chart.series.items(), LINES, strict=False):
            axes.plot(*points, color=colour, label=name, **how)
            if chart.dots:  # what is on the diagonal is right
                axes.axline((points[0][0], points[0][0]), slope=1, color=TEXT, linewidth=0.8)
        if chart.dots:
            axes.set_aspect("equal", "datalim")
        elif chart.across in COUNTED:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(chart.across)
        axes.set_ylabel(chart.up)
        axes.grid(alpha=0.2)
        if len(chart.series) > 1:
            axes.legend(frameon=False)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata=dict.fromkeys(NOT_NEEDED))
    text = _NAMESPACE.sub("", written.getvalue()).replace(TEXT, "currentColor")
    label = f"{', '.join(chart.series)} by {chart.across}"
    return f'<svg role="img" aria-label="{escape(label)}"{text[text.index("<svg") + 4 :]}'


def picture(sample: np.ndarray) -> str:
    """Returns an image sample as a ``data:`` URL of a PNG; empty for a sample of another form.

    Args:
        sample: (height, width), (1 or 3, height, width) or (height, width, 1 or 3), of any range.
    """
    from matplotlib.image import imsave

    if sample.ndim == 3 and sample.shape[0] in (1, 3):
        sample = np.moveaxis(sample, 0, -1)
    if sample.ndim == 3 and sample.shape[2] == 1:
        sample = sample[..., 0]
    is_image = sample.ndim == 2 or (sample.ndim == 3 and sample.shape[2] == 3)
    if not is_image or max(sample.shape) > IMAGE_LIMIT or min(sample.shape[:2]) < 2:
        return ""
    low, high = float(sample.min()), float(sample.max())
    scaled = (sample.astype(float) - low) / ((high - low) or 1)
    written = io.BytesIO()
    imsave(written, scaled, cmap="gray", format="png")
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
