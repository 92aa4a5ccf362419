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

The same small model under several names, with one worker each, all started at once. `one` sends
requests to the first model only, while the others are idle; `in turn` sends them to all models in
turn, so batches cannot form and each request wakes a sleeping process.
""",
    "connections": """\
## Idle connections

Connections that have sent one request and are kept open, while 8 more produce the load. `kB each`
is the growth of the front-end, without the kernel's socket buffers. At the end each of them is used
again, and works.
""",
    "waiting": """\
## Waiting tasks

One model holds its batch while clients wait for it, and the load is for another model on the same
front-end. Then the held model continues and serves them in batches of 32. Each waiting task needs a
connection, so their number is limited by file descriptors.
""",
    "queue": """\
## The queue alone

The queue of one model without sockets: CPU microseconds per task, except for `sweep`, which is one
of the checks of deadlines that happen ten times a second. `batch` takes 32 tasks at a time; for
`cancel` all clients disconnect (`sweep after cancel` is the next check), for `expire` all deadlines
pass.
""",
    "front_ends": """\
## Front-ends

One model with two workers, which all front-ends share. At the end 2,000 requests are sent over 100
connections, and `/metrics` is read 8 times over separate connections.
""",
    "bulk": f"""\
## Large answers and uploads

Large answers, and bodies in chunks, whose length is not known before, from many clients at once.
All settings are the defaults, except the room for waiting requests. CPU milliseconds per megabyte;
`/ping` is asked on fresh connections all the time. A row takes {LIMIT_S:g} s at most; requests
without an answer by then are late.
""",
}
