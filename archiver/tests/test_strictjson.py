# SPDX-License-Identifier: Apache-2.0
from datetime import date

import pytest
from servekit_archiver import strictjson


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"a": 1, "a": 2}', "key 'a' is given twice"),
        (b'{"x": {"a": 1, "a": 1}}', "key 'a' is given twice"),
        (b"[NaN]", "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b"\xff", "is not UTF-8 (byte 0)"),
        (b"", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b"[" * 100_000, "is nested too deeply"),
        (b" " * (5 << 20), "is 5242880 bytes long"),
        (b"1" * 5000, "Exceeds the limit"),
    ],
)
def test_what_is_not_strict_json_is_refused(text, why):
    with pytest.raises(ValueError, match=r"^.") as caught:
        strictjson.loads(text)

    assert why in str(caught.value)


def test_many_duplicate_keys_are_refused_in_no_time():
    keys = ",".join(f'"{index}": 0' for index in range(100_000))

    with pytest.raises(ValueError, match="'7' is given twice"):
        strictjson.loads(f'{{{keys}, "7": 0}}')


def test_canonical_bytes_do_not_depend_on_the_order_of_keys():
    one, other = {"b": 1, "a": {"d": "é", "c": 2.5}}, {"a": {"c": 2.5, "d": "é"}, "b": 1}

    assert (
        strictjson.dumps(one) == strictjson.dumps(other) == '{"a":{"c":2.5,"d":"é"},"b":1}'.encode()
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": [1, float("nan")]}, "options.a[1]: nan is not a finite number"),
        ({"a": float("inf")}, "options.a: inf is not a finite number"),
        ({"a": date(2026, 1, 2)}, "options.a: datetime.date(2026, 1, 2) is a date, which JSON"),
        ({"a": 1 << 70}, "options.a: 1180591620717411303424 does not fit in 64 bits"),
        ({"a": "\ud800"}, "options.a: '\\ud800' is not valid Unicode"),
        ({1: 2}, "options: the key 1 is not a string"),
        ({"a\nb": float("nan")}, "options.'a\\nb': nan is not a finite number"),
    ],
)
def test_a_value_that_json_cannot_hold_is_named_by_its_path(value, problem):
    (found,) = strictjson.value_problems(value, "options")

    assert found.startswith(problem)


def test_a_value_nested_deeper_than_the_stack_is_one_problem():
    value = []
    for _ in range(100_000):
        value = [value]

    assert strictjson.value_problems(value, "options") == [
        "options: is nested too deeply, limit 32"
    ]


@pytest.mark.parametrize(
    "value", ["x" * 1_000_000, "a\nb\x1b[2J", "\udcff", [10**6000]], ids=range(4)
)
def test_a_value_is_shown_short_and_on_one_line(value):
    shown = strictjson.show(value)

    assert len(shown) < 80
    assert shown.isprintable()
