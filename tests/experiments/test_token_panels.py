"""The panels of the token experiments: their settings, sizes and numbers of runs."""

import pytest
import torch

from clcore.experiments import token_panels as tp
from clcore.experiments import token_sequences as ts

pytestmark = pytest.mark.usefixtures("one_thread")


def test_figures_have_three_seeds_and_the_table_ten():
    assert {p for p in tp.PANELS if tp.seeds(p) == 10} == {
        "neither-10",
        "variance-10",
        "mean-10",
        "vanilla-10",
    }
    assert tp.seeds("infonce-relu") == 3


def test_each_protocol_leaves_out_the_panel_that_would_repeat_it():
    """And the activation that stands in for the sigmoid."""
    assert set(tp.PANELS) - set(tp.panels("paper")) == {"rate", "infonce-tanh"}
    assert set(tp.PANELS) - set(tp.panels("released")) == {"decay", "infonce-tanh"}


def test_a_panel_is_a_grid_of_its_net():
    runs = tp.runs("mean-5", "released", range(2), steps=1, sizes=(1, 3), factors=(2,))
    assert list(runs.columns) == list(tp.COLUMNS)
    last = runs[runs.step == 1]
    assert last.groupby(["P", "filters"]).size().to_dict() == {(1, 2): 2, (3, 6): 2}
    assert set(last.norm) == {"mean"} and last.zeta.unique() == pytest.approx(5)
    assert set(last.panel) == {"mean-5"}
    assert set(runs.step) == {0, 1}


def test_ours_change_what_they_say():
    def settings(panel, protocol):
        made = ts.configuration(0, 1, 1, protocol=protocol, **tp.PANELS[panel])
        return made["lr"], made["weight_decay"]

    assert settings("infonce-relu", "paper") == (2e-3, 5e-3)
    assert settings("infonce-relu", "released") == (2e-2, 5e-3)
    assert settings("decay", "paper") == (2e-3, 5e-2)
    assert settings("rate", "released") == (2e-3, 5e-3)


def test_a_rate_is_for_panels_without_one_of_their_own():
    def ends(panel, protocol, lr):
        runs = tp.runs(panel, protocol, [0], steps=3, sizes=(1,), factors=(1,), lr=lr)
        return runs.chi_plus.tolist()

    text, quick = (ends("infonce-relu", "paper", lr) for lr in (None, 2e-2))
    assert text[0] == quick[0] and text[1] != quick[1]
    assert text == ends("infonce-relu", "paper", 2e-3)
    assert ends("rate", "released", None) == ends("rate", "released", 0.5)


def test_generators_of_the_control_use_every_token():
    for confined in (True, False):
        config = ts.configuration(0, 1, 1, confined=confined)
        setup = ts.run([config], steps=1, progress=False).setup(0)
        outside = setup["present"] & ~setup["in_set"]
        assert outside.any() == (not confined)
        assert setup["in_set"].sum(-1).tolist() == [1] * 10


def test_filters_of_figure_5_come_with_what_they_found():
    result = tp.filters("paper", range(2), tokens=8, steps=1)
    assert result.params(0)["W"].shape == (10, 15, 8)
    table = tp.found(result)
    assert table.groupby(["activation", "step"]).size().tolist() == [2] * 4
    W, R = result.params(3)["W"], result.setup(3)["in_set"]
    best = (W / W.norm(dim=-1, keepdim=True)).amax(1) > 0.9
    every = [bool(all(best[k, a] for a in range(8) if R[k, a])) for k in range(10)]
    some = [bool(any(best[k, a] for a in range(8) if R[k, a])) for k in range(10)]
    other = [bool(any(best[k, a] for a in range(8) if not R[k, a])) for k in range(10)]
    row = table[(table.seed == 1) & (table.activation == "linear") & (table.step == 1)].iloc[0]
    expected = [torch.tensor(x).double().mean().item() for x in (every, some, other)]
    assert row[list(ts.FOUND)].tolist() == pytest.approx(expected)
    for lr, own in ((None, 2e-3), (2e-2, 2e-2)):
        assert tp.filters("paper", [0], 8, 1, lr=lr).table.lr.unique() == pytest.approx([own])


def test_a_montage_has_the_tokens_of_the_set_first():
    result = tp.filters("paper", range(2), tokens=8, steps=1)
    picture = tp.montage(result, seeds=1, gap=1)
    assert picture.shape == (2 * 16, 10 * 9)
    # The second line is the linear net of the first seed: run 2.
    W, R = result.params(2)["W"][4], result.setup(2)["in_set"][4]
    tile = picture[16:31, 4 * 9 : 5 * 9]
    assert tile[:, 8].isnan().all() and picture[15].isnan().all()
    expected = torch.cat([W[:, R], W[:, ~R]], dim=1) / W.norm(dim=1, keepdim=True)
    torch.testing.assert_close(tile[:, :8], expected)


def test_found_tells_the_tokens_of_the_set_from_the_others():
    best = torch.tensor([[0.95, 0.95, 0.1, 0.2], [0.95, 0.5, 0.95, 0.2]])
    chosen = torch.tensor([[True, True, False, False]] * 2)
    assert {k: float(v) for k, v in ts.found(best, chosen).items()} == {
        "all_found": 0.5,
        "any_found": 1.0,
        "other_found": 0.5,
    }


def test_an_unknown_panel_says_which_there_are():
    with pytest.raises(ValueError, match=r"panel: expected one of infonce-relu, .* got 'relu'"):
        tp.runs("relu", "paper", range(1))
