import urllib.request
from pathlib import Path


def configure(parser):
    parser.add_argument("url", help="http://HOST:PORT/csv/MODEL")
    parser.add_argument("file", type=Path)
    return run


def run(parsed):
    with urllib.request.urlopen(parsed.url, parsed.file.read_bytes()) as response:
        print(response.read().decode(), end="")
    return 0
