# SPDX-License-Identifier: Apache-2.0
"""Shows the whole way once: train, build an archive, start the server, predict. ``make demo``."""

import sys
from pathlib import Path

from local_server import BIN, DemoError, run, serving

HERE = Path(__file__).parent
MODEL = HERE / "digits"
ARCHIVE = HERE / "digits.mar"


def main() -> int:
    """Run the demo and return its exit status."""
    try:
        show()
    except DemoError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def show() -> None:
    """Take every step, and say which."""
    step("Training on scikit-learn's handwritten digits")
    import demo_requests  # takes a second, with scikit-learn

    print(f"   {demo_requests.train.main():.1%} of the held-out images are read right")
    step("Building the archive")
    print(indented(run("servekit-archive", "build", MODEL, "-o", ARCHIVE, "--force")))
    step("Starting the server")
    with serving(ARCHIVE) as (port, printed):
        print(indented(printed))
        step("Predicting digits that the model has never seen")
        demo_requests.predict_some(port)
        step("Predicting all held-out digits, 64 requests at a time")
        demo_requests.predict_burst(port)
        step("Stopping the server")
    print(GO_ON)


def step(text: str) -> None:
    """Print a heading."""
    print(f"\n-- {text}", flush=True)


def indented(text: str) -> str:
    """Return *text* as it stands below a heading."""
    return "\n".join(f"   {line}" for line in text.splitlines())


def near(path: Path) -> Path:
    """Return *path* as one would type it here."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


GO_ON = f"""
-- Done. To go on:

   {near(BIN / "servekit")} start {near(ARCHIVE)}
   curl -H 'Content-Type: image/png' --data-binary @{near(MODEL / "three.png")} \\
       http://127.0.0.1:8080/digits/predict
   http://127.0.0.1:8080/docs shows the API; docs/quickstart.md serves a model of your own.
"""

if __name__ == "__main__":
    sys.exit(main())
