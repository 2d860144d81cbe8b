"""Formulas in the letters of a docstring, as a reader sees them."""

import re

import pytest

from clcore.ledger import registry
from clcore.ledger.tex import typeset
from clcore.ledger.written import statements


def plain(text):
    """What `typeset` gives, with ⌊ ⌋ for what stands below and ⌈ ⌉ for what stands above."""
    html = str(typeset(text))
    for tag, (a, z) in (("sub", "⌊⌋"), ("sup", "⌈⌉")):
        html = html.replace(f"<{tag}>", a).replace(f"</{tag}>", z)
    return html


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("dw_km/dt = s_km b_k(W)", "dw⌊km⌋/dt = s⌊km⌋ b⌊k⌋(W)"),
        ("W_{>l}^T W_l, f_{l-1}", "W⌊&gt;l⌋⌈T⌉ W⌊l⌋, f⌊l-1⌋"),
        ("X for F_l-1; c_t - 1", "X for F⌊l-1⌋; c⌊t⌋ - 1"),
        ("r_+ - r_+^0, dL/dr_k- < 0", "r⌊+⌋ - r⌊+⌋⌈0⌉, dL/dr⌊k-⌋ &lt; 0"),
        ("1/(2N^2), d^-0.75. (v)^2", "1/(2N⌈2⌉), d⌈-0.75⌉. (v)⌈2⌉"),
        ("d^(-1/2), c^(t), R^(c, gamma), R^ falls", "d⌈-1/2⌉, c⌈(t)⌉, R̂(c, γ), R̂ falls"),
        ("rho_0mu^2, P^perp, |u|_inf", "ρ⌊0μ⌋⌈2⌉, P⌈⊥⌉, |u|⌊∞⌋"),
        ("dE_alpha/dtheta, beta's, eps = 1", "dE⌊α⌋/dθ, β&#39;s, ε = 1"),
        ("D_1,jj, D_1, D_2 and U_>=;", "D⌊1,jj⌋, D⌊1⌋, D⌊2⌋ and U⌊≥⌋;"),
        ("sum_{i != j} a_i >= sqrt(2)", "∑⌊i ≠ j⌋ a⌊i⌋ ≥ √(2)"),
        ("x~ and p~_l, Kbar_1, r ~ 1/y", "x̃ and p̃⌊l⌋, K̄⌊1⌋, r ~ 1/y"),
        ("+-1/d, a +- b, (1 - P)^|N_mu|", "±1/d, a ± b, (1 - P)⌈|N⌊μ⌋|⌉"),
        ("theta_m* at w_*, lambda_max", "θ⌊m*⌋ at w⌊*⌋, λ⌊max⌋"),
        ("leaky_relu, about 1e-12 of it", "<code>leaky_relu</code>, about 10⁻¹² of it"),
        ("L = 1..6, N over 10^2..10^5.", "L = 1 to 6, N over 10⌈2⌉ to 10⌈5⌉."),
        ("a multiple, in the mean, numbers", "a multiple, in the mean, numbers"),
    ],
)
def test_indices_powers_letters_and_relations_are_shown(given, shown):
    assert plain(given) == shown


def test_latex_and_code_are_left_to_typeset():
    text = r"$w_k^2$ <= `a_b^c` and x_1"
    apart = (str(typeset(r"$w_k^2$")), "<code>a_b^c</code>")
    assert str(typeset(text)) == f"{apart[0]} ≤ {apart[1]} and x<sub>1</sub>"
    assert typeset(r"\alpha_1") == typeset(r"\alpha_1")


def test_no_check_has_a_formula_that_stays_in_letters():
    for place in registry.places():
        said = statements.of(place)
        for text in (*said.blocks.values(), said.note):
            html = re.sub(r"<code.*?</code>|\\\(.*?\\\)", "", str(typeset(text)))
            assert not re.search(r"\S[_^]|[_^]\S", html), (place.path, place.name, text)
