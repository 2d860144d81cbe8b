"""Checks at work: the statements that feed a part are among the lines that its page shows."""

import sys
from collections import defaultdict

import pytest

from clcore import _paths
from clcore.ledger import registry, trial
from clcore.ledger.written import paragraphs

pytestmark = pytest.mark.usefixtures("one_thread")
FEEDS = ("add", "breaks", "fails_by", "proves", "says", "confirms")


@pytest.fixture
def fed(monkeypatch):
    """Name of a part -> the (file, line) in clcore/checks that feed it."""
    checks = str(_paths.root() / "clcore" / "checks")
    found = defaultdict(set)

    def traced(method):
        def call(self, *values, **more):
            frame = sys._getframe(1)
            while not frame.f_code.co_filename.startswith(checks):
                frame = frame.f_back
                assert frame
            found[self.name].add((frame.f_code.co_filename, frame.f_lineno))
            return method(self, *values, **more)

        return call

    for name in FEEDS:
        monkeypatch.setattr(trial.Part, name, traced(getattr(trial.Part, name)))
    return found


@pytest.mark.parametrize(
    "claim",
    ["ddn/eq7", "ddn/eq15", "ddn/eq67"],
)
def test_the_lines_of_a_part_are_all_those_that_feed_it(claim, fed):
    (place,) = (one for one in registry.places() if claim in one.claims)
    list(registry.function(claim)(2, 1))
    assert fed
    for name, at in fed.items():
        lines = paragraphs.of_part(place, name)
        assert not [
            (file, line)
            for file, line in at
            if not any(str(one.file) == file and one.first <= line <= one.last for one in lines)
        ], name
