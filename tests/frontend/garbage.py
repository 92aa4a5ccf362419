# SPDX-License-Identifier: Apache-2.0
"""What only the garbage collector could free."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage() -> Iterator[None]:
    """Fail if the block leaves reference cycles of objects of servekit."""
    gc.collect()
    gc.freeze()  # it need not look at what was there before
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = {type(each).__qualname__ for each in gc.garbage if is_ours(type(each))}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()
    assert found == set(), f"in reference cycles: {sorted(found)}"


def is_ours(kind: type) -> bool:
    return kind.__module__.startswith(("servekit", "h2.", "hpack."))
