"""The ledger of one chapter: it takes checks, judges them, keeps and shows their records."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from numbers import Integral
from typing import Any

from clcore.ledger.judging import Check, Record, judge
from clcore.ledger.outcomes import anchor, number, outcome
from clcore.ledger.printed import LedgerError, claim
from clcore.ledger.verdicts import verdict

RECORDS_MIME = "application/vnd.clcore.records+json"


@dataclass
class Ledger:
    """What one chapter records. `show` receives HTML, plain text and the new records."""

    chapter: str
    show: Callable[[str, str, list[dict]], None] | None = None
    records: list[dict] = field(default_factory=list)
    _clock: float = field(default_factory=time.perf_counter)

    def start_clock(self) -> None:
        """Count the next check's seconds from now (called at the start of every cell)."""
        self._clock = time.perf_counter()

    def check(
        self,
        claim: str | Check,
        measured: float = math.nan,
        bound: float = math.nan,
        control: dict[str, float] | None = None,
        **more: Any,
    ) -> Record:
        """Record one check, and show it.

        claim: its id, such as "acl/thm1" (or a whole Check). measured: the worst value over the
        draws. bound, relation: it passes when `measured relation bound` ("<=", or ">=").
        control: {what was broken: the same measurement on the broken version}; each must fail.
        draws: how many random inputs. part: which part of a statement of several. form: "printed";
        "corrected" together with correction=...; "open" together with setting=..., a value of
        something that the print leaves open. evidence: "exact" (a statement), "protocol" (a number
        at the paper's own protocol) or "partial" (smaller than that). counterexample: needed where
        the printed form fails. misprint: a slip that leaves one possible meaning, which is then
        what the printed form measures; its control "as typeset" takes the letters as they are.

        Raises LedgerError for an unknown id, a missing or passing control, a second record of the
        same claim, part, form and setting, and for a statement that fails as printed: that wants a
        second computation, which a `Part` has.
        """
        if not isinstance(claim, Check):
            claim = Check(claim, float(measured), float(bound), dict(control or {}), **more)
            _alone(claim)
        record = self._accept(claim)
        self._display([record])
        return record

    def run(self, checks: Iterable[str | Callable], draws: int, seed: int) -> list[Record]:
        """Run checks, record all they find, show one table.

        checks: ids of claims, whose functions `clcore.ledger.registry` finds, or functions
        `f(draws, seed) -> Iterator[Check]`. Raises LedgerError for a claim without a function, and
        for draws below 1 or a seed below 0.
        """
        for name, value, least in (("draws", draws, 1), ("seed", seed, 0)):
            if not isinstance(value, Integral) or value < least:
                raise LedgerError(f"{name}: expected an int from {least}, got {value!r}")
        import torch

        from clcore.ledger import registry  # which reads the claims from here

        new = []
        for asked in checks:
            function = registry.function(asked) if isinstance(asked, str) else asked
            self.start_clock()
            # Checks differentiate, whatever a notebook has switched off.
            with torch.enable_grad():
                new += [self._accept(check) for check in function(draws, seed)]
        self._display(new)
        return new

    def blocked(self, claim_id: str, missing: str) -> None:
        """Record that a claim cannot be checked here, and what is missing for it."""
        claim(claim_id)
        self._once(claim_id, "", "blocked")
        record = {"claim": claim_id, "blocked": missing, "anchor": anchor(claim_id)}
        self.records.append(record)
        if self.show:
            from clcore.ledger.html import check_table

            text = f"{claim_id}: blocked, missing {missing}"
            self.show(check_table([record], self._verdicts([record])), text, [record])

    def todo(self, ids: Iterable[str]) -> list[str]:
        """Of these claims, the ids of those that nothing has been recorded for."""
        done = {r["claim"] for r in self.records}
        return [i for i in ids if i not in done]

    def _accept(self, check: Check) -> Record:
        self._once(check.claim, check.part, check.form, check.setting)
        passed = judge(check)
        now = time.perf_counter()
        fields: dict[str, Any] = asdict(check) | {
            "measured": float(check.measured),
            "bound": float(check.bound),
            "control": {k: float(v) for k, v in check.control.items()},
            "draws": int(check.draws),
            "said": None if check.said is None else dict(check.said),
            "proofs": check.proofs,
        }
        record = Record(
            **fields, passed=passed, seconds=now - self._clock, anchor=anchor(check.claim)
        )
        self._clock = now
        self.records.append(asdict(record))
        return record

    def _once(self, claim_id: str, part: str, form: str, setting: str = "") -> None:
        key = (part, form, setting)
        for r in self.records:
            if r["claim"] == claim_id and (
                "blocked" in r
                or form == "blocked"
                or (r["part"], r["form"], r.get("setting", "")) == key
            ):
                raise LedgerError(
                    f"{claim_id} {part!r} ({form}) is recorded already in {self.chapter}; give "
                    "each check of a claim its own `part`"
                )

    def _display(self, new: list[Record]) -> None:
        if self.show and new:
            from clcore.ledger.html import check_table

            rows = [asdict(r) for r in new]
            shown = check_table(rows, self._verdicts(rows))
            self.show(shown, "\n".join(_text(r) for r in rows), rows)

    def _verdicts(self, new: list[dict]) -> dict[str, str]:
        """The verdicts so far on the claims of some records; a claim whose printed form is still
        to come is not yet checked."""
        found = {}
        for claim_id in {r["claim"] for r in new}:
            try:
                found[claim_id] = verdict([r for r in self.records if r["claim"] == claim_id])
            except LedgerError:
                found[claim_id] = "todo"
        return found


def _alone(check: Check) -> None:
    """Refuse a printed form that fails in a cell: nothing there computes it a second time."""
    exactly = check.form == "printed" and check.evidence == "exact" and check.sort == "sampled"
    if exactly and not judge(check):
        raise LedgerError(
            f"{check.claim} {check.part!r}: the statement as printed fails ({check.measured:.3g}, "
            f"bound {check.bound:.3g}) by one computation alone; make it a function of "
            "clcore/checks with a `Part`, whose `fails_by` takes the second"
        )


def _text(r: dict) -> str:
    control = "; ".join(f"{k}: {number(v)}" for k, v in r["control"].items())
    part = f" [{r['part']}]" if r["part"] else ""
    return (
        f"{r['claim']}{part} {outcome(r)}: {number(r['measured'])} {r['relation']} "
        f"{number(r['bound'])} over {r['draws']} draws (control {control})"
    )
