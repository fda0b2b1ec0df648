"""The model of a micro-batch's cost recovers the prices behind made-up points, and shows how wrong it is."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

from benchmarks import model as pages
from benchmarks.fitting import TERMS, Model, Work, as_good, beyond, non_negative, terms, without_each
from benchmarks.groups import Configuration, Contestant, Kept, Point

pytestmark = pytest.mark.full

PRICES = np.array([300.0, 12.0, 20.0, 0.5, 4e-4, 2e-3, 1e-3, 0.4])
"""Milliseconds, in the order of the terms."""
MACHINE = 2
"""The number of its processors."""


def points(noise=0.0):
    """Return measured configurations, and their times at known prices."""
    rng = random.Random(1)
    found = [
        Configuration(query, rows, keys, cores, cores, rows // 10, groups)
        for query, rows, keys, cores, groups in product(
            ("sliding", "sliding-10-2", "tumbling"), (1_000, 1_000_000), (1_000, 100_000), (1, 2), (1, 8, 128)
        )
    ]
    return found, [float(terms(each, MACHINE) @ PRICES) * (1 + rng.uniform(-noise, noise)) for each in found]


def test_fit_recovers_the_prices():
    of, ms = points()
    assert Model.fit(of, ms, MACHINE).prices == pytest.approx(PRICES, rel=1e-6)


def test_fit_recovers_prices_from_noisy_points_with_errors_of_that_size():
    of, ms = points(noise=0.1)
    errors = [abs(model.ms(each) / took - 1) for model, each, took in zip(without_each(of, ms, MACHINE), of, ms, strict=True)]
    assert max(errors) < 0.2
    assert Model.fit(of, ms, MACHINE).prices[0] == pytest.approx(PRICES[0], rel=0.1)


def test_fitted_prices_are_never_negative():
    of, ms = points(noise=0.3)
    cheap = [took - 0.9 * 300.0 - terms(each, MACHINE)[1] * 12.0 for each, took in zip(of, ms, strict=True)]
    assert (Model.fit(of, [max(took, 1.0) for took in cheap], MACHINE).prices >= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_non_negative_solution_is_optimal(seed):
    rng = np.random.default_rng(seed)
    matrix, wanted = rng.normal(size=(12, 5)), rng.normal(size=12)
    found = non_negative(matrix, wanted)
    slope = matrix.T @ (matrix @ found - wanted)
    assert (found >= 0).all()
    assert (slope >= -1e-8).all()
    assert slope[found > 0] == pytest.approx(0, abs=1e-8)


def test_work_of_a_micro_batch_follows_from_its_configuration():
    work = Work.of(Configuration("tumbling", 100_000, 10, 2, 2, 10_000, 4))
    assert work.cells == pytest.approx(2 * 1.1 * 10)
    assert (work.results, work.kept, work.payloads) == (pytest.approx(10), pytest.approx(10), 8)
    sparse = Work.of(Configuration("tumbling", 1_000, 10**9, 2, 2, 100, 4))
    assert sparse.cells == pytest.approx(1_000, rel=0.01)


def test_work_per_processor_does_not_depend_on_spark_cores():
    one, two = (Configuration("tumbling", 1_000, 10, cores, 2, 1_000, 8) for cores in (1, 2))
    alone, both = (dict(zip(TERMS, terms(each, MACHINE).tolist(), strict=True)) for each in (one, two))
    assert (alone["key group"], both["key group"]) == (8, 4)
    assert alone["key group, processor"] == both["key group, processor"] == 4
    many = dict(zip(TERMS, terms(Configuration("tumbling", 1_000, 10, 8, 8, 1_000, 8), MACHINE).tolist(), strict=True))
    assert (many["key group, processor"], many["row"]) == (1, 125)


def test_extrapolation_error_shows_a_bent_curve():
    of, ms = points()
    assert max(abs(error) for _, error in beyond(of, ms, "groups", MACHINE)[1]) < 1e-6
    bent = [took * (2 if each.groups == 128 else 1) for each, took in zip(of, ms, strict=True)]
    assert max(abs(error) for _, error in beyond(of, bent, "groups", MACHINE)[1]) > 0.3
    assert beyond(of[:3], ms[:3], "rows") == (0, [])


def test_prices_have_wide_bounds_if_points_cannot_separate_them():
    def groups_of(models):
        return min(model.prices[1] for model in models), max(model.prices[1] for model in models)

    of, ms = points(noise=0.1)
    low, high = groups_of([Model.fit(of, ms, MACHINE), *as_good(of, ms, MACHINE)])
    assert high < 2 * low
    # On one core, a key group's own work grows like the machine's work, and each group has a payload. Their prices cannot be
    # separated.
    alone = [(each, took) for each, took in zip(of, ms, strict=True) if each.cores == 1]
    low, high = groups_of(as_good(*map(list, zip(*alone, strict=True)), MACHINE))
    assert low == 0
    assert high > 10


def measured_points(noise=0.05):
    of, ms = points(noise)
    each = [
        Point(configuration, Contestant([took], 1, 1, 1, 1, 1), None, 20, {}, {"cpu": "c", "cores": MACHINE}, "2026")
        for configuration, took in zip(of, ms, strict=True)
    ]
    return Kept({point.of: point for point in each}, {1: 30.0, 1_001: 630.0}, {"cpu": "c"})


def test_page_shows_errors_prediction_and_the_first_bottleneck():
    text = "\n".join(pages.page(measured_points(), pages.parse([])))
    assert "**Target met**" in text
    assert "extrapolat" in text
    assert "What breaks first" in text
    assert "0.60 ms" in text  # the driver's time for a task
    for term in TERMS:
        assert f"| {term} |" in text


def test_too_few_points_are_refused():
    few = measured_points()
    few.points = dict(list(few.points.items())[:5])
    with pytest.raises(SystemExit, match="5 points"):
        pages.page(few, pages.parse([]))
