# SPDX-License-Identifier: Apache-2.0
"""Batches are cut into runs of the sizes that a model takes."""

import pytest
from servekit_torch.runs import RunSizes

from servekit.errors import BootError


@pytest.mark.parametrize(
    ("sizes", "bounds", "count", "expected"),
    [
        pytest.param([], (1, None), 5, [(0, 5, 5)], id="any size runs at once"),
        pytest.param([], (1, 2), 5, [(0, 2, 2), (2, 4, 2), (4, 5, 1)], id="a largest size cuts"),
        pytest.param([], (4, 4), 5, [(0, 4, 4), (4, 5, 4)], id="a fixed size pads the rest"),
        pytest.param([], (2, None), 1, [(0, 1, 2)], id="a smallest size pads"),
        pytest.param([8, 1, 4], (1, None), 3, [(0, 3, 4)], id="the next size up"),
        pytest.param([1, 4, 8], (1, None), 9, [(0, 8, 8), (8, 9, 1)], id="the largest, and a rest"),
        pytest.param([4], (1, None), 4, [(0, 4, 4)], id="just the size"),
    ],
)
def test_runs(sizes, bounds, count, expected):
    assert list(RunSizes.of(sizes, *bounds).runs(count)) == expected


@pytest.mark.parametrize("size", [1, 9])
def test_sizes_that_the_model_does_not_take_are_refused(size):
    with pytest.raises(BootError, match=f"sizes: {size}, but the model takes 2 to 8 rows"):
        RunSizes.of([4, size], 2, 8)
