"""The tables of numbers that a paper prints, as tables that a person reads."""

from typing import Any

WORDS = {
    "bn": "BatchNorm",
    "symrelu": "symmetric ReLU",
    "pr_sparse": "Pr(sparse)",
    "sigma": "σ",
    "n": "runs",
    "std": "standard deviation",
    "cite": "cited as",
    "phi": "φ",
    "psi": "ψ",
    "cifar10": "CIFAR-10",
    "stl10": "STL-10",
    "e100": "100 epochs",
    "e300": "300 epochs",
    "e500": "500 epochs",
    "initial": "at the start",
    "epoch1": "after one epoch",
    "converged": "at convergence",
    "diff_vs_L_nce": "accuracy minus InfoNCE's",
    "L_nce": "InfoNCE",
    "backprop_alpha": "gradient through α as well",
    "Pg_rH": "α by the entropy",
    "Pg_rgamma2": "α by the inverse regulariser, γ = 2",
    "Pg_rs": "α by the square regulariser",
    "Pg_direct_alpha": "α set directly",
    "nce": "InfoNCE",
    "nce_exact": "exact weights",
    "nce_exact_noise": "exact weights with noise",
    "beta=-0.5": "β = -0.5",
    "beta=+0.2": "β = 0.2",
    "mu_no__sigma_no": "through neither",
    "mu_no__sigma_yes": "through σ² alone",
    "mu_yes__sigma_no": "through μ alone",
    "mu_yes__sigma_yes": "through μ and σ²",
    "z0": "$z_0$",
    "zs0": "$z_{s0}$",
    "zs1": "$z_{s1}$",
    "zs101": "$z_{s101}$",
    "zs0111": "$z_{s0111}$",
}
"""Names of rows and columns that are more than their letters with blanks for underscores."""
LEADING = {"N": "N = ", "P": "P = ", "beta": "β = "}
"""The same for a name that ends in a number, as in N10 or beta_2."""

Tree = dict[str, Any]


def tables(numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """The tables among the numbers of a claim: {"columns": names, "rows": lists of texts}.

    numbers: of data/claims. A table is a list of rows, or numbers under names of names: then the
    innermost names are columns, and a row begins with the others. A number that stands alone is in
    the statement and left out here.
    """
    found = [_listed(value) for value in numbers.values() if _is_listed(value)]
    named, corner = {name: value for name, value in numbers.items() if _depth(value)}, ""
    if len(named) == 1:
        ((name, named),) = named.items()
        corner = WORDS.get(name, "")
    return found + ([_table(named, corner)] if _depth(named) > 1 else [])


def _is_listed(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(r, dict) for r in value)


def _listed(rows: list[Tree]) -> dict[str, Any]:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name, "")) for name in columns] for row in rows]
    return {"columns": [_word(name) for name in columns], "rows": cells}


def _is_cell(value: Any) -> bool:
    return not isinstance(value, dict) or {"mean", "std"} <= set(value)


def _depth(value: Any) -> int:
    """How many names lead to a cell; 0 where the way is not the same length everywhere."""
    if _is_cell(value):
        return 0
    depths = {_depth(one) for one in value.values()}
    return 1 + depths.pop() if len(depths) == 1 else 0


def _table(tree: Tree, corner: str) -> dict[str, Any]:
    """The table of numbers under names of names; corner: the head of its first column."""
    rows = _paths(tree)
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    numbers = [_numbers(cell) for _, row in rows for cell in row.values()]
    places = [max(map(_places, same)) for same in zip(*numbers, strict=True)]
    cells = [
        [*map(_word, path), *(_cell(row.get(name, ""), places) for name in columns)]
        for path, row in rows
    ]
    heads = [corner, *[""] * (len(rows[0][0]) - 1), *map(_word, columns)]
    return {"columns": heads, "rows": cells}


def _paths(tree: Tree) -> list[tuple[list[str], Tree]]:
    """The names that lead to each innermost mapping, and the mapping."""
    if all(map(_is_cell, tree.values())):
        return [([], tree)]
    return [([name, *path], row) for name, one in tree.items() for path, row in _paths(one)]


def _numbers(cell: Any) -> list[float]:
    """A number, or a mean and its standard deviation."""
    if isinstance(cell, dict):
        return [cell["mean"], cell["std"]]
    return cell if isinstance(cell, list) else [cell]


def _places(number: float) -> int:
    return len(str(number).partition(".")[2])


def _word(name: str) -> str:
    letters = name.rstrip("0123456789")
    if name not in WORDS and letters.rstrip("_") in LEADING and letters != name:
        return LEADING[letters.rstrip("_")] + name[len(letters) :]
    return WORDS.get(name, name.replace("_", " "))


def _cell(value: Any, places: list[int] | None = None) -> str:
    """A cell in words: a mean with its spread, yes and no. places: how many decimals each has."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not printed"
    if isinstance(value, str):
        return value
    numbers = _numbers(value)
    if places is None:
        decimals = [str(n) for n in numbers]
    else:
        decimals = [f"{n:.{p}f}" for n, p in zip(numbers, places, strict=True)]
    bold = " (bold)" if isinstance(value, dict) and value.get("highlighted") else ""
    return " ± ".join(decimals) + bold
