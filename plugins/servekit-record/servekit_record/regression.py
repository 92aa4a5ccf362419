# SPDX-License-Identifier: Apache-2.0
"""A recording as a pytest: one test for each call."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["test_text"]


def test_text(
    path: Path, recording: str, target: str, model: str, parsed: argparse.Namespace
) -> str:
    """Return a test module that replays *recording* against *target*.

    :param path: where it will be, which decides the paths in it.
    :param model: the name of the model in the recording.
    :param parsed: has the tolerance and what is ignored.
    """
    here = path.parent.resolve()
    files = [os.path.relpath(Path(each).resolve(), here) for each in (recording, target)]
    return dedent(f'''\
        """Sends recorded requests to the model, and expects the recorded responses.

        Written by: servekit replay {Path(recording).name} {Path(target).name} --pytest {path.name}
        """

        from itertools import islice
        from pathlib import Path

        import pytest
        from servekit import serve
        from servekit_record.comparison import ResponseComparison
        from servekit_record.recording import read_calls
        from servekit_record.sending import Address, Sender

        HERE = Path(__file__).parent
        CALLS = list(islice(read_calls(HERE / {files[0]!r}), {parsed.first}))


        @pytest.fixture(scope="module")
        def sender():
            with serve({{{model!r}: str(HERE / {files[1]!r})}}, block=False, port=0) as server:
                sender = Sender(Address(server.url))
                yield sender
                sender.close()


        @pytest.mark.parametrize("call", CALLS, ids=range(1, len(CALLS) + 1))
        def test_call(call, sender):
            answer = sender.send(call)
            comparison = ResponseComparison({parsed.tolerance!r}, {parsed.ignore!r})
            problem = answer.problem or comparison.difference(call, answer.status, answer.message)
            assert not problem, problem
        ''')
