# SPDX-License-Identifier: Apache-2.0
"""Updates of the routing table: what a front-end makes of them is what the supervisor has."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servekit.ipc.table import ModelRow, ReplicaRow, Table, TableUpdate

STATES = st.sampled_from(["starting", "serving"])


def row(number, state, name):
    replica = ReplicaRow(0, 1, "/nobody", state)
    return ModelRow(name, "1.0", "", [replica], 8, 0.0, 1.0, 16, number=number)


def sent(update):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(update), type=TableUpdate)


def by_number(table):
    return {each.number: each for each in table.models}


# which models there are, in which order, and how each is
tables = st.lists(
    st.builds(row, st.integers(0, 4), STATES, st.sampled_from("ab")),
    unique_by=lambda each: each.number,
).map(Table)


@given(st.lists(tables, min_size=1))
def test_a_front_end_has_the_table_of_the_supervisor(history):
    known, seen = {}, {}
    for table in history:
        found = sent(TableUpdate.since(known, table)).applied(seen)
        assert found == table
        known, seen = by_number(table), by_number(found)


def test_an_update_has_only_what_changed():
    before = Table([row(0, "starting", "a"), row(1, "serving", "b")])
    after = Table([row(1, "serving", "b"), row(0, "serving", "a")], is_draining=True)
    update = sent(TableUpdate.since(by_number(before), after))

    assert (update.table.models, update.numbers) == ([row(0, "serving", "a")], [1, 0])
    assert update.table.is_draining
    assert update.applied(by_number(before)).models[0] is before.models[1]


def test_a_lost_update_is_noticed():
    update = TableUpdate.since(by_number(known := Table([row(0, "serving", "a")])), known)

    with pytest.raises(ValueError, match="no row for the model 0"):
        update.applied({})
