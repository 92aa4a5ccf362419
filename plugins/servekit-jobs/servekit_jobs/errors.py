# SPDX-License-Identifier: Apache-2.0
"""The errors of jobs.

RequestError
└── JobNotFound                      404
ServekitError
├── TooManyJobs                      429   ``Retry-After`` is set
├── Unavailable
│   └── JobLost                      503   ``Retry-After`` is set
└── NoRoomForResult                  507
"""

from servekit.errors import RequestError, ServekitError, Unavailable

__all__ = ["JobLost", "JobNotFound", "NoRoomForResult", "TooManyJobs"]


class JobNotFound(RequestError):
    """No job has this id, or its result was removed after ``job_ttl``."""

    status = 404
    title = "Unknown job"


class TooManyJobs(ServekitError):
    """There are ``jobs`` of them, or their results take ``jobs_size``."""

    status = 429
    title = "Too many jobs"
    retry_after_s = 1


class JobLost(Unavailable):
    """The front-end that ran the job is gone; the prediction may or may not have run."""

    title = "Job lost"


class NoRoomForResult(ServekitError):
    """With this result, those of all jobs would take more than ``jobs_size``."""

    status = 507
    title = "No room for the answer"
