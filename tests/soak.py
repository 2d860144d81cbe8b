"""Builds killed and damaged at random, and what comes of them: `make soak`, apart from the tests.

Every round begins the build of some chapters and kills it (the build alone, or its whole group) at
a random moment, then damages a random file of what it has made: cut short, a byte flipped, deleted,
a folder in its place. In the end one build runs to its end, and its ledger and its site are
compared with those of a build that nobody disturbed. A build that ends by itself must have
succeeded, and what was killed must be gone soon. All lies in a temporary folder, which is removed.

`--seed` gives the same choices; moments are shares of the undisturbed build's time, which varies.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from clcore import _paths
from clcore.book import compare

SMALLEST = ["5-two-layer-images"]
TEXT = {".html", ".js", ".json", ".ipynb", ".md", ".txt", ".css", ".svg", ".map", ".bib"}
# What two undisturbed builds differ in: how long it took, how much memory, when it began.
_VARIES = re.compile(
    rb"\d+(\.\d+)?(e[+-]\d+)?( |&nbsp;)?(s|MiB)\b|20\d\d-\d\d-\d\d(T[0-9:+.]+)?"
    rb'|"(seconds|started|execution_time|peak_mib)": [^,}\n]*'
    rb"|>(seconds|peak memory \(MiB\))</th><td>[^<]*"
    rb"|(seconds|peak_mib): [0-9.]+"
)
LONGEST = 900  # seconds of a build; one that takes longer hangs
GONE = 30  # seconds until what a killed build had begun is gone; Sphinx may end what it does


@dataclass
class Soak:
    """The folder, the command and what was found."""

    folder: Path
    chapters: list[str]
    profile: str
    problems: list[str] = field(default_factory=list)

    def begin(self, name: str) -> subprocess.Popen:
        """Start a build into a folder, in a group of its own; what it says goes into name.log."""
        command = [sys.executable, "-m", "clcore", "build", "--profile", self.profile]
        command += [word for chapter in self.chapters for word in ("--only", chapter)]
        places = {"CLCORE_BUILD": str(self.folder / name), "TMPDIR": str(self.folder / "tmp")}
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=_paths.root(),
                env=os.environ | places,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def whole(self, name: str) -> float:
        """Run a build to its end; how long it took. Raises RuntimeError where it fails."""
        began = time.monotonic()
        status = self.begin(name).wait(LONGEST)
        if status:
            raise RuntimeError(
                f"a build that nobody killed ended with {status}:\n{self.said(name)}"
            )
        return time.monotonic() - began

    def said(self, name: str) -> str:
        """The end of what a build said."""
        return (self.folder / f"{name}.log").read_text(errors="replace").strip()[-1500:]

    def running(self) -> list[psutil.Process]:
        """Processes of builds in this folder, by their environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("TMPDIR") == str(self.folder / "tmp"):
                    found.append(process)
            except psutil.Error:  # gone, or another user's
                continue
        return [p for p in found if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def end(self) -> None:
        """Kill what still runs."""
        for process in self.running():
            process.kill()


def disturb(soak: Soak, chance: random.Random, longest: float) -> str:
    """One round: begin a build, kill it, damage a file; what was done, in a line."""
    moment, group = chance.random() * longest, chance.random() < 0.5
    run = soak.begin("rough")
    try:
        status = run.wait(moment)
    except subprocess.TimeoutExpired:
        lines = soak.said("rough").splitlines()
        kill = os.killpg if group else os.kill
        kill(run.pid, signal.SIGKILL)
        run.wait()
        last = lines[-1] if lines else "nothing said yet"
        done = f"{'group' if group else 'build'} killed after {moment:.1f} s ({last})"
    else:
        done = f"ended by itself before {moment:.1f} s, status {status}"
        if status:
            soak.problems.append(f"{done}:\n{soak.said('rough')}")
    until = time.monotonic() + GONE
    while (left := _kernels(soak)) and time.monotonic() < until:
        time.sleep(0.2)
    if left:
        soak.problems.append(f"{done}, and {left} ran on for {GONE} s")
    return f"{done}; {damage(soak.folder / 'rough', chance)}"


def _kernels(soak: Soak) -> list[str]:
    """What may not outlive its build: kernels and their runners."""
    names = ("ipykernel", "clcore.book.execute", "clcore.book.warm")
    lines = []
    for process in soak.running():
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return [line for line in lines if any(name in line for name in names)]


def damage(build: Path, chance: random.Random) -> str:
    """Damage one file below a folder, in the cache and the site more often than elsewhere; what was
    done."""
    parts = sorted(path for path in build.glob("*")) if build.exists() else []
    files = {part: [part] if part.is_file() else _files(part) for part in parts}
    files = {part: inside for part, inside in files.items() if inside}
    if not files:
        return "nothing to damage yet"
    weights = [4 if part.name in ("cache", "html") else 1 for part in files]
    file = chance.choice(files[chance.choices(list(files), weights)[0]])
    size, how = file.stat().st_size, chance.choice(("cut", "flipped", "deleted", "a folder"))
    if how == "cut":
        kept = chance.randrange(size) if size else 0
        os.truncate(file, kept)
        how = f"cut from {size} to {kept} bytes"
    elif how == "flipped" and size:
        at = chance.randrange(size)
        with file.open("r+b") as changed:
            changed.seek(at)
            byte = changed.read(1)[0]
            changed.seek(at)
            changed.write(bytes([byte ^ 1 << chance.randrange(8)]))
        how = f"byte {at} flipped"
    else:
        file.unlink()
        if how == "a folder":
            file.mkdir()
    return f"{file.relative_to(build)}: {how}"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def differences(calm: Path, rough: Path) -> list[str]:
    """What is not the same in two builds: records to the bit, the pages but for times."""
    found = compare.differences(calm / "ledger.json", rough / "ledger.json", words=True)
    sites = [{p.relative_to(b / "html"): p for p in _files(b / "html")} for b in (calm, rough)]
    found += [f"html/{name}: in one only" for name in sorted(sites[0].keys() ^ sites[1].keys())]
    for name in sorted(sites[0].keys() & sites[1].keys()):
        if name.name not in (".key", "searchindex.js"):  # of pages with their times
            a, b = (_without_times(site[name]) for site in sites)
            if a != b:
                found.append(f"html/{name} differs")
    return found


def _without_times(file: Path) -> bytes:
    content = file.read_bytes()
    return _VARIES.sub(b"#", content) if file.suffix in TEXT else content


def main() -> int:
    """Run it; 0 when the disturbed build came to the same as the other."""
    say = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    say.add_argument("--rounds", type=int, default=50)
    say.add_argument("--seed", type=int, default=0)
    say.add_argument("--only", action="append", help="a chapter; may be repeated")
    say.add_argument("--profile", default="smoke")
    asked = say.parse_args()
    chance = random.Random(asked.seed)
    folder = Path(tempfile.mkdtemp(prefix="clcore-soak-"))
    (folder / "tmp").mkdir()
    soak = Soak(folder, asked.only or SMALLEST, asked.profile)
    done: Counter[str] = Counter()
    try:
        took = soak.whole("calm")
        print(
            f"undisturbed: {took:.0f} s, {', '.join(soak.chapters)}, seed {asked.seed}", flush=True
        )
        for number in range(1, asked.rounds + 1):
            line = disturb(soak, chance, took)
            done[line.partition(" ")[0]] += 1
            print(f"{number}: {line}", flush=True)
        last = soak.whole("rough")
        print(f"the last build, not killed: {last:.0f} s")
        soak.problems += differences(folder / "calm", folder / "rough")
        litter = [
            p.name for p in (folder / "tmp").iterdir() if p.name.startswith(("clcore", "tmp"))
        ]
        soak.problems += [f"left in the folder for temporary files: {name}" for name in litter]
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        soak.problems.append(str(error))
    finally:
        soak.end()
        shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(soak.problems) or "ledger to the bit and site, but for times, as undisturbed")
    told = ", ".join(f"{n} times {what}" for what, n in sorted(done.items()))
    print(f"{sum(done.values())} rounds ({told}), {len(soak.problems)} problems")
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
