# SPDX-License-Identifier: Apache-2.0
"""Records from a pipe reach their files, and what is lost is counted."""

import json
import os

from servekit.log_files.writer import LogFileWriter


class FakeFile:
    def __init__(self):
        self.lines, self.is_full, self.is_closed = [], False, False

    def write(self, lines):
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.lines += lines.splitlines()

    def close(self):
        self.is_closed = True


class Files(dict):
    def open(self, name):
        self.setdefault(name, FakeFile())
        return self[name]


def test_each_record_goes_to_its_file_also_across_reads():
    files, (reading, writing) = Files(), os.pipe()
    records = b"".join(b'a.jsonl\t{"n":%d}\nb.jsonl\t{}\n' % number for number in range(1000))
    os.write(writing, records)
    os.close(writing)
    LogFileWriter(files.open).run(reading)
    os.close(reading)

    assert files["a.jsonl"].lines == [b'{"n":%d}' % number for number in range(1000)]
    assert len(files["b.jsonl"].lines) == 1000
    assert files["a.jsonl"].is_closed


def test_lines_that_are_lost_are_counted_and_told_once(capfd):
    files = Files()
    writer, file = LogFileWriter(files.open), files.open("a.jsonl")
    file.is_full = True
    writer.write([b"a.jsonl\t1", b"a.jsonl\t2", b"b.jsonl\t1"])
    writer.write([b"a.jsonl\t3"])
    file.is_full = False
    writer.write([b"a.jsonl\t4"])
    told = json.loads(file.lines[0])

    assert told["message"] == "lines lost before this one: 3"
    assert file.lines[1:] == [b"4"]
    assert files["b.jsonl"].lines == [b"1"]
    assert capfd.readouterr().err.splitlines() == [
        "warning: a.jsonl: No space left on device: its lines are lost until that ends",
        "warning: a.jsonl is written again; lines lost: 3",
    ]


def test_few_files_are_open_at_a_time(monkeypatch):
    monkeypatch.setattr("servekit.log_files.writer.MAX_OPEN", 2)
    files = Files()
    LogFileWriter(files.open).write([b"a\t1", b"b\t1", b"c\t1"])

    assert [file.is_closed for file in files.values()] == [True, False, False]
