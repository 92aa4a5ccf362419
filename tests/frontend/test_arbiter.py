# SPDX-License-Identifier: Apache-2.0
"""What gunicorn is told of the front-ends that it keeps."""

from gunicorn.config import Config

from servekit.frontend.server.application import Application
from servekit.settings import Settings


def test_a_front_end_that_stands_still_is_not_waited_for_long():
    application = Application.__new__(Application)
    application._settings, application._listeners = Settings(), [0]
    application.cfg = Config()
    application.load_config()

    assert application.cfg.timeout == 10
