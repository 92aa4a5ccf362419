# SPDX-License-Identifier: Apache-2.0
"""What routes say of the stages on their way."""

import pytest

from servekit.supervisor.models.routes import handed_on, named_routes

EACH = {"stage": "infer", "each": True}
JOIN = {"stage": "infer", "inputs": ["decode", "request"]}
NAMED = {"stage": "infer", "inputs": ["decode"]}


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        pytest.param([["decode", "infer"]], ["decode"], id="the next stage gets the object"),
        pytest.param([["decode", NAMED]], ["decode"], id="it names the step before"),
        pytest.param([["decode", "infer"], ["decode"]], [], id="another route ends there"),
        pytest.param([["decode", "other"]], [], id="the next stage has processes of its own"),
        pytest.param([["decode", EACH]], [], id="a list is taken apart in between"),
        pytest.param([["decode", JOIN]], [], id="outputs are put together in between"),
        pytest.param([["infer"]], [], id="no route leads there"),
    ],
)
def test_stages_whose_outputs_never_leave_their_worker(ways, expected):
    routes = {
        f"/v1/{number}": {"steps": [{"stage": s} if isinstance(s, str) else s for s in steps]}
        for number, steps in enumerate(ways)
    }

    assert handed_on(named_routes("m", {"routes": routes}), ["decode", "infer"]) == expected
