# SPDX-License-Identifier: Apache-2.0
"""The words of the report; the figures come from the sections."""

from typing import Final

from tests.scale.bulk import LIMIT_S

INTRODUCTION: Final = """\
# Scale on one machine

What a request costs while one thing grows tenfold. Written by `make scale SCALE_ARGS=--publish`.

Machine: {machine}

The load is wrk with 8 connections on the smallest possible model: {plan.rounds} rounds of
{plan.seconds} s, medians. Costs are CPU milliseconds per 1,000 requests, user and system time from
`/proc`: of the front-ends, of the workers, and of every process of the server. Memory is PSS, in
which pages that several processes share are counted once. The client runs on the same machine.
"""

#: in this order
TEXTS: Final = {
    "models": """\
## Models

All of them are the same small model under other names, one worker each, started at once. `one` asks
the first model only, while the others are idle; `in turn` goes round them all, so batches cannot
form and each request wakes a process that has slept.
""",
    "connections": """\
## Idle connections

Connections that have been answered once and are kept; the load comes over 8 more. `kB each` is the
growth of the front-end, without the kernel's socket buffers. Every one of them is asked again at
the end, and answers.
""",
    "waiting": """\
## Waiting tasks

A model that holds its batch, with so many clients waiting behind it; the load asks another model on
the same front-end. Then the held model goes on and answers them in batches of 32. Each waiting
task needs a connection, so how many there can be is a question of file descriptors.
""",
    "queue": """\
## The queue alone

The queue of one model without sockets: CPU microseconds per task, but for `sweep`, which is one of
the looks at the deadlines that happen ten times a second. `batch` hands tasks out 32 at a time;
`cancel` is all clients leaving (and `sweep` one look after that), `expire` all deadlines passing.
""",
    "front_ends": """\
## Front-ends

One model with two workers, which all front-ends share. At the end 2,000 requests are sent over 100
connections and `/metrics` is read 8 times over connections of their own.
""",
    "bulk": f"""\
## Large answers and uploads

Answers as large as is asked for, and bodies in chunks, whose length nobody knows before, from many
clients at once; no other setting than room for what waits. CPU milliseconds per megabyte; `/ping`
is asked on a fresh connection, again and again. A row takes {LIMIT_S:g} s at most, what has no
answer then is late.
""",
}
