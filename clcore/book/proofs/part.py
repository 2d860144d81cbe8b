"""What a part of a claim is in a program that proves it: it prints what was shown."""

from collections.abc import Mapping

from clcore.ledger.exact import Shown


class Part:
    """A part of the claim: what is shown of it, and that it is not shown of broken versions."""

    def __init__(self, name: str = "", form: str = "", setting: str = "", claim: str = "") -> None:
        said = (claim, name or "whole statement", form and f"{form} form", setting)
        self.name = ", ".join(filter(None, said))

    def proves(self, shown: Shown, *, breaks: Mapping[str, Shown], at: str = "") -> "Part":
        """Print one line, and one for each broken version."""
        what = "counterexample" if shown.refutes else shown.rung
        size = f" at {at}" if at else ""
        left = f"{shown.failing} of {shown.entries} left"
        print(f"{self.name}{size}: {f'NOT SHOWN, {left}' if shown.failing else what}")
        for name, other in breaks.items():
            left = f"{other.failing} of {other.entries} left"
            print(f"  {name}: {f'not shown, {left}' if other.failing else 'SHOWN AS WELL'}")
        return self
