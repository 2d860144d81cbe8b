"""How a check is written: a claim's trial, and its parts.

    @check("ncl/thm1a-max")
    def thm1a_max(t: Trial) -> None:
        bound = t.part("bound", 1e-13)
        bound.add(lower - top)                                  # errors of the statement
        bound.breaks("columns of norm 1.1", longer - top)       # the same, of one that is false

The control is next to the part that it breaks. A part has a relation, so that it measures the
error nearest to failing, and its control the one nearest to passing. The random numbers are named
after the claim. The words on a part are in data/findings (`clcore.ledger.words`).
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clcore.ledger import words as said_of
from clcore.ledger.judging import Check, satisfies
from clcore.ledger.printed import LedgerError
from clcore.ledger.reducers import Reducer, strict, worst
from clcore.ledger.rungs import Proof

if TYPE_CHECKING:
    from torch import Tensor

    from clcore.ledger.exact import Shown


def generator(name: str, seed: int) -> np.random.Generator:
    """The stream of random numbers of that name."""
    return np.random.default_rng((seed, zlib.crc32(name.encode())))


def _some(errors: Sequence[Any]) -> list[np.ndarray]:
    return [e for e in map(np.asarray, errors) if e.size]


@dataclass
class Part:
    """Errors over draws of one part of a claim, in one form, and of its controls."""

    claim: str
    name: str
    bound: float
    relation: str = "<="
    controls: Reducer = strict
    measured: Reducer = worst
    form: str = "printed"
    setting: str = ""
    evidence: str = "exact"
    draws: int | None = None
    words: str = ""
    errors: list[np.ndarray] = field(default_factory=list)
    broken: dict[str, list[np.ndarray]] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    sort: str = "sampled"
    _reducers: dict[str, Reducer] = field(default_factory=dict)
    _proofs: list[Proof] = field(default_factory=list)
    _second: list[np.ndarray] = field(default_factory=list)
    _within: list[float] = field(default_factory=list)

    def add(self, *errors: Any) -> "Part":
        """Errors of the statement, one array over draws (or one number) a setting. An array without
        entries, as where no draw of a few meets a hypothesis, is none."""
        self.errors += _some(errors)
        return self

    def breaks(self, what: str, *errors: Any, by: Reducer | None = None) -> "Part":
        """The same errors of a version that is broken, in the words `what`; it must fail.

        by: how they become one number, where that is not this part's `controls`.
        """
        if some := _some(errors):
            self.broken.setdefault(what, []).extend(some)
        if by is not None:
            self._reducers[what] = by
        return self

    def proves(self, shown: "Shown", *, breaks: Mapping[str, "Shown"], at: str = "") -> "Part":
        """Lift the part to a proof: what `clcore.ledger.exact` shows of it, for all values.

        breaks: {what was broken: the same of it}; none of them may go through. at: the sizes for
        which it was shown, as "n = 3, d = 2", where the statement is of all sizes. A part without
        further errors measures how many entries were not shown, against the bound 0.

        Raises LedgerError where it does not go through, or without anything broken.
        """
        name = f"{self.claim} {self.name!r}"
        if shown.failing:
            raise LedgerError(
                f"{name}: {shown.failing} of {shown.entries} entries could not be shown"
            )
        if not breaks:
            raise LedgerError(f"{name}: a proof needs a broken version that fails")
        for what, other in breaks.items():
            if not other.failing:
                raise LedgerError(
                    f"{name}: the proof also succeeds with {what!r}; break a condition it needs"
                )
        left = {w: {"failing": o.failing, "entries": o.entries} for w, o in breaks.items()}
        self._proofs.append(Proof(shown.rung, shown.entries, shown.refutes, at, left))
        return self

    def says(self, **numbers: Any) -> "Part":
        """Numbers for the words in data/findings: {=name} or {=name:.2f} there.

        Raises LedgerError for what is neither number nor text.
        """
        for name, value in numbers.items():
            plain = value.item() if isinstance(value, np.generic) else value
            if not isinstance(plain, (int, float, str)):
                raise LedgerError(
                    f"{self.claim} {self.name!r}: expected a number or a text for {name!r}, got "
                    f"{type(value).__name__}"
                )
            self.said[name] = plain
        return self

    def fails_by(self, *expected: Any, within: float = 1e-9) -> "Part":
        """The errors that were added, by a second computation: for a printed form that fails, so
        that its measure shows how, and not only that it is beyond the bound.

        expected: as many numbers as were added, in their order. within: of the larger of 1 and each
        of them. `record` raises LedgerError where the two differ, or only one of them fails.
        """
        again = [np.asarray(e) for e in expected]
        self._second += again
        self._within += [within] * sum(e.size for e in again)
        return self

    def confirms(self, within: float = 1e-9, **numbers: Any) -> "Part":
        """The numbers given to `says`, by a second computation.

        within: relative to the larger of 1 and the number. Raises LedgerError where the two differ,
        and for a number that was not said.
        """
        for name, other in numbers.items():
            if name not in self.said:
                raise LedgerError(
                    f"{self.claim} {self.name!r}: expected {name!r} to be said before it is "
                    f"confirmed; said: {', '.join(sorted(self.said)) or 'nothing'}"
                )
            self._same(f"{name} is said to be", self.said[name], other, within)
        return self

    def _same(self, what: str, value: Any, other: Any, within: Any) -> None:
        ours, theirs = np.asarray(value, float), np.asarray(other, float)
        if ours.shape != theirs.shape:
            raise LedgerError(
                f"{self.claim} {self.name!r}: {what} {ours.size} numbers, a second computation "
                f"gives {theirs.size}"
            )
        apart = ~(np.abs(ours - theirs) <= within * np.maximum(1, np.abs(theirs)))  # NaN, too
        if apart.any():
            k = np.flatnonzero(apart)[0]
            raise LedgerError(
                f"{self.claim} {self.name!r}: {what} {ours.flat[k]:.6g}, a second computation "
                f"gives {theirs.flat[k]:.6g}; one of the two is wrong"
            )

    def record(self) -> Check:
        """What was found, for the ledger. Raises LedgerError when nothing was added, where a
        second computation (`fails_by`) disagrees, and for a printed form that fails without one."""
        if not self.errors and not self._proofs:
            raise LedgerError(f"{self.claim} {self.name!r}: nothing was added to this part")
        alone = not self.errors
        if alone and (self.broken or self.bound or any(p.refutes for p in self._proofs)):
            raise LedgerError(
                f"{self.claim} {self.name!r}: expected errors beside a bound, a control of draws "
                "or an exact counterexample; a part that is only proved has none of these"
            )
        if self._second:
            ours, theirs = (
                np.concatenate([np.ravel(e) for e in v]) for v in (self.errors, self._second)
            )
            self._same("it fails by", ours, theirs, np.array(self._within))
        measured = 0.0 if alone else self.measured(self.errors, self.relation)
        count = sum(len(e) if e.ndim else 1 for e in self.errors)
        if np.isfinite(measured) and not satisfies(measured, self.relation, self.bound):
            self._fails(measured)
        asked = ("claim", "words", "form", "setting", "said")
        text = said_of.worded({name: getattr(self, name) for name in asked})
        return Check(
            self.claim,
            measured,
            float(self.bound),
            self._controls(),
            draws=count if self.draws is None else self.draws,
            part=self.name,
            relation=self.relation,
            form=self.form,
            evidence=self.evidence,
            setting=self.setting,
            words=self.words,
            said=self.said,
            shares={w: s for w, e in self.broken.items() if (s := self._share(e)) is not None},
            sort=self.sort,
            proofs=tuple(self._proofs),
            **{name: text[name] for name in said_of.FIELDS},
        )

    def _fails(self, measured: float) -> None:
        """Refuse what fails by an error of ours, or could: a definition; a form that the second
        computation says to hold; a printed form without one."""
        if self.sort == "definition":
            raise LedgerError(
                f"{self.claim} {self.name!r}: our code is not what the paper defines "
                f"({measured:.3g}, bound {self.bound:.3g}); a definition cannot be false"
            )
        if self._second:
            ends = np.cumsum([e.size for e in self.errors])[:-1]
            flat = np.concatenate([np.ravel(e) for e in self._second]).astype(float)
            again = self.measured(np.split(flat, ends), self.relation)
            if satisfies(again, self.relation, self.bound):
                raise LedgerError(
                    f"{self.claim} {self.name!r}: it fails by one computation ({measured:.3g}, "
                    f"bound {self.bound:.3g}) and holds by the second ({again:.3g}); one "
                    "of them is wrong"
                )
        exactly = self.form == "printed" and self.evidence == "exact" and self.sort == "sampled"
        shown = self._second or any(proof.refutes for proof in self._proofs)
        if exactly and not shown:
            raise LedgerError(
                f"{self.claim} {self.name!r}: the statement as printed fails ({measured:.3g}, "
                f"bound {self.bound:.3g}) by one computation alone; if that is the paper's doing, "
                "give its errors by a second one, which shares no code with the first (`fails_by`)"
            )

    def _controls(self) -> dict[str, float]:
        if not self.errors:
            return {w: float(n["failing"]) for p in self._proofs for w, n in p.control.items()}
        return {
            what: self._reducers.get(what, self.controls)(errors, self.relation)
            for what, errors in self.broken.items()
        }

    def _share(self, errors: list[np.ndarray]) -> float | None:
        """In which share of draws a control fails; None where it is one number."""
        values = np.concatenate([np.ravel(e) for e in errors])
        if values.size < 2:
            return None
        fails = values > self.bound if self.relation == "<=" else values < self.bound
        return float(np.mean(fails))


class Both(NamedTuple):
    """A part as printed, and its corrected form."""

    printed: Part
    corrected: Part

    def breaks(self, what: str, *errors: Any, by: Reducer | None = None) -> "Both":
        """One control for both forms, as `Part.breaks`."""
        for part in self:
            part.breaks(what, *errors, by=by)
        return self


class Trial:
    """What a check function gets: how many draws, which random numbers, and parts to fill."""

    def __init__(
        self,
        claims: Sequence[str],
        draws: int = 1,
        seed: int = 0,
        sort: str = "sampled",
    ):
        self.claims, self.draws, self.seed, self.sort = tuple(claims), draws, seed, sort
        self.parts: list[Part] = []

    @property
    def claim(self) -> str:
        """The claim on trial, the first where there are several."""
        return self.claims[0]

    @cached_property
    def rng(self) -> np.random.Generator:
        """The random numbers of this claim: no other check shares them."""
        return generator(self.claim, self.seed)

    def stream(self, what: str) -> np.random.Generator:
        """Random numbers of this claim besides `rng`, the same whenever `what` is the same."""
        return generator(f"{self.claim} {what}", self.seed)

    def keys(self, count: int, what: str = "") -> "Tensor":
        """Keys of this claim for `clcore.random`, [count], the same whenever `what` is."""
        import torch

        from clcore import random

        name = f"{self.claim} {what}".strip()
        own = random.fold_in(random.key(self.seed), zlib.crc32(name.encode()))
        return random.fold_in(own, torch.arange(count))

    def share(self, settings: int) -> int:
        """How many draws each of several settings gets."""
        return -(-self.draws // settings)

    def part(
        self,
        name: str = "",
        bound: float = 0.0,
        relation: str = "<=",
        *,
        claim: str | None = None,
        setting: str = "",
        words: str | None = None,
        form: str = "printed",
        sort: str = "",
        **more: Any,
    ) -> Part:
        """Begin a part: a separate statement, as printed, with a bound for its errors.

        setting: a value of something that the print leaves open (the form is then "open").
        controls, measured: how errors become one number (`strict`, `worst`). evidence: as in
        `Ledger.check`. draws: where they are not the number of errors. sort: as in `Check`. words:
        the name under which data/findings speaks of it, if not its own. claim: where one function
        tries several.
        """
        claim = claim or self.claim
        if claim not in self.claims:
            raise LedgerError(
                f"{claim} {name!r}: this trial is of {', '.join(self.claims)}; name the claim in "
                "@check"
            )
        new = Part(
            claim,
            name,
            bound,
            relation,
            form="open" if setting else form,
            setting=setting,
            words=name if words is None else words,
            sort=sort or self.sort,
            **more,
        )
        self.parts.append(new)
        return new

    def corrected(self, name: str = "", bound: float = 0.0, *more: Any, **named: Any) -> Part:
        """Begin the corrected form of a part; arguments as in `part`."""
        return self.part(name, bound, *more, form="corrected", **named)

    def both(self, *name: Any, **more: Any) -> Both:
        """Begin a part as printed and its corrected form; arguments as in `part`."""
        return Both(self.part(*name, **more), self.corrected(*name, **more))

    def defines(self, name: str = "", bound: float = 0.0, *more: Any, **named: Any) -> Part:
        """Begin a part that asserts nothing which could be false: it holds our code against what
        the paper defines. Arguments as in `part`."""
        return self.part(name, bound, *more, sort="definition", **named)

    def records(self) -> Iterator[Check]:
        """Every part's record, in the order in which they were begun."""
        return (part.record() for part in self.parts)


def check(*claims: str, on: str = "draws") -> Callable:
    """Mark the check of a claim: a function of a Trial, which fills its parts.

    claims: ids, as literals, for `clcore.ledger.registry` reads them from the source. on: "draws",
    and the function is then called with (draws, seed); or "runs", for a function of a Trial and of
    tables of runs, which is then called with the tables. Either call yields `Check`s.

    Raises LedgerError for a check without an id, another `on`, or a function that takes no trial.
    """
    if not claims:
        raise LedgerError("@check: expected the id of a claim")
    if on not in ("draws", "runs"):
        raise LedgerError(f"@check({claims[0]!r}): expected on 'draws' or 'runs', got {on!r}")

    def mark(function: Callable) -> Callable:
        if next(iter(signature(function).parameters), "") != "t":
            raise LedgerError(
                f"@check({claims[0]!r}): expected a function whose first parameter is the trial, "
                f"t, got {getattr(function, '__name__', function)}{signature(function)}"
            )

        @wraps(function)
        def draw(draws: int, seed: int) -> Iterator[Check]:
            trial = Trial(claims, draws, seed)
            function(trial)
            yield from trial.records()

        @wraps(function)
        def judge(*tables: Any, **named: Any) -> Iterator[Check]:
            trial = Trial(claims, sort="trained")
            function(trial, *tables, **named)
            yield from trial.records()

        return draw if on == "draws" else judge

    return mark
