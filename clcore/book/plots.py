"""How the book's figures look."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import seaborn as sns


def use_style() -> None:
    """Set the book's style: quiet axes, text that can be read from the back row, safe colours."""
    sns.set_theme(context="notebook", style="ticks", palette="colorblind", font_scale=0.95)
    mpl.rcParams.update(
        {
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": "medium",
            "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it; seaborn asks for Arial
            "legend.frameon": False,
            "savefig.facecolor": "white",
        }
    )


def panels(columns: int, width: float = 8.0, height: float = 3.2) -> tuple[plt.Figure, list]:
    """A figure with `columns` axes side by side; sizes in inches."""
    figure, axes = plt.subplots(1, columns, figsize=(width, height), squeeze=False)
    return figure, list(axes[0])


def below(gap: float) -> dict:
    """Legend arguments that put it below its axes, `gap` of their height away."""
    return {"loc": "upper center", "bbox_to_anchor": (0.5, -gap), "fontsize": "small"}
