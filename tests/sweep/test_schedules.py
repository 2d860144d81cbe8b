"""Learning-rate schedules against torch's own, and a sweep that follows one."""

import math

import pytest
import torch
from small_runs import configs, data, loss, run

from clcore import random as cr
from clcore.nets.networks import mlp_init
from clcore.sweep import cosine


def rates(schedule, optimizer, steps):
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize(("steps", "warmup", "last"), [(9, 0, 0.0), (12, 4, 0.0), (12, 1, 0.3)])
def test_it_is_torchs_cosine_after_a_linear_rise(steps, warmup, last):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - warmup, eta_min=last)
    expected = [(t + 1) / warmup for t in range(warmup)] + rates(falling, optimizer, steps - warmup)
    found = [cosine(torch.tensor(t), steps, warmup, last).item() for t in range(steps)]
    assert found == pytest.approx(expected, rel=1e-12)
    assert cosine(steps, steps, warmup, last).item() == pytest.approx(last, abs=1e-15)
    assert cosine(2 * steps, steps, warmup, last).item() == pytest.approx(last, abs=1e-15)


def test_it_is_of_the_precision_of_the_rates():
    assert cosine(1, 1000).item() == (1 + math.cos(math.pi / 1000)) / 2


@pytest.mark.parametrize(("steps", "warmup"), [(3, 3), (3, -1), (0, 0)])
def test_a_warm_up_leaves_steps_to_decay(steps, warmup):
    with pytest.raises(ValueError, match=rf"0 <= warmup < steps, got warmup={warmup} and steps"):
        cosine(0, steps, warmup)


def test_adamw_on_a_schedule_equals_a_plain_loop():
    """The decay of the weights follows the schedule, too, as in torch."""
    config = configs(1, weight_decay=0.3)[0]
    follow = {"optimizer": "adamw", "schedule": lambda step, config: cosine(step, 40, 5)}
    found = run([config], steps=40, **follow)
    _, start, stream = cr.split(cr.key(config["seed"]), 3)
    params = {n: w.double().requires_grad_() for n, w in mlp_init(start, [5, 6, 4]).items()}
    optimizer = torch.optim.AdamW(params.values(), lr=config["lr"], weight_decay=0.3)
    plain = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: cosine(t, 40, 5).item())
    for step in range(40):
        optimizer.zero_grad()
        loss(params, data(cr.fold_in(stream, step), step, config), config).backward()
        optimizer.step()
        plain.step()
    for n, w in params.items():
        torch.testing.assert_close(found.params(0)[n], w.detach(), rtol=1e-9, atol=1e-11)
