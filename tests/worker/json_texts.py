# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 - tables of broken bytes read better unbroken
"""Texts that are JSON by the grammar of RFC 8259, texts that are not, and those it leaves open.

None becomes another kind by standing as a value in an object, so each is tried there too.
"""

from itertools import chain

__all__ = ["OPEN", "REFUSED", "TAKEN", "TOO_LARGE"]

NUMBERS = """0 -0 1 -1 10 123456789 0.0 -0.0 0.5 1.25 100.001 1e0 1E0 1e+2 1E+2 1e-2 1E-2 0e0 0e+1 -0e-1
    1.5e3 -1.5E-3 9007199254740993 9223372036854775807 -9223372036854775808 18446744073709551615
    18446744073709551616 -9223372036854775809 123456789012345678901234567890 1e308 -1e308
    0.00000000000000000000000000000000000000000000001 1.7976931348623157e308 5e-324 1e-400 -1e-400"""

STRINGS = r"""
    "" "a" "'" "/" "\"" "\\" "\/" "\b" "\f" "\n" "\r" "\t" "\u0000" "\u0041" "\u00e9" "\u20AC" "\uFFFF"
    "\ud83d\ude00" "\uD83D\uDE00" "\uDBFF\uDFFF" "\uD800\uDC00" "\\u0041" "\\\"" "\\\\" "a\u0062c" "é" "€" "😀"
    "\u2028\u2029" "\ufeff" "//" "/*x*/" "[" "{" "]" "}" "[[[[{{{{" "NaN" "," ":" "null"
"""

STRUCTURES = [
    *("[]", "{}", "[[]]", "[{}]", '{"a":{}}', "[1,2,3]", "[null,true,false]", "true", "false"),
    *("null", '{"":0}', '{"a":1,"b":2}', '{"a":[{"b":[]}]}', '["a","b"]', '[1,"a",null]'),
    *('{"a":1,"a":2}', '{"a":1,"a":1}', '{"\\u0061":1,"a":2}', '{"a\\u0000b":1}'),  # the last one counts
    *(" 1", "1 ", "\t1", "\n1", "\r1", "\r\n[\t1 ,\r2\n]\r\n", ' { "a" : 1 , "b" : [ ] } '),
    *("[" * 90 + "]" * 90, '{"a":' * 90 + "1" + "}" * 90, '"' + "[" * 500 + '"'),
    "[" + "[]," * 5000 + "1]",
]  # fmt: skip

TAKEN = [
    *(text.encode() for text in chain(NUMBERS.split(), STRINGS.split(), STRUCTURES)),
    *(
        b'"\x7f"',
        b'"\xc2\x80"',
        b'"\xef\xbf\xbe"',
        b'"\xf4\x8f\xbf\xbf"',
        b'"\xe2\x80\xa8"',
    ),
]

BAD_NUMBERS = """01 -01 00 -00 007 1. -1. .5 -.5 . - + +1 ++1 --1 -+1 1e 1E 1e+ 1e- 1.e1 1.5e .e1 1e1.5 1ee1 0e 0e+
    0x1 0X1F 1f 1L 1n 1_000 1,000 1/2 0b1 0o7 1a 1-1 -a 2.e3 2.e+3 -2. 1eE2 0.1.2 NaN nan -NaN +NaN Infinity
    -Infinity +Infinity infinity Inf inf -inf -nan 1# $1 ١ １"""

BAD_WORDS = """tru true1 truee True TRUE fals False nul Null None nil undefined yes a abc 'a' `a` tRue t n f
    nulll null1 truefalse @ # & * ~ ? \\ \\n /"""

BAD_STRINGS = r"""
    " "a 'a" "a' "\" "\\\" "\a" "\x41" "\0" "\'" "\U0041" "\u" "\u1" "\u12" "\u123" "\u123g" "\u-123" "\u+123"
    "\u 123" "\u00 1" "\ud800\u" "\ud800\u1" "\8" "\e" "\v" "\{" "a"b" ""a a"" "a""b" "\u0x41" \u0041 \"a\"
"""

BAD_STRUCTURES = [
    *("", " ", "\n", "[", "]", "{", "}", "[[", "]]", "[1", "[1,", "1]", "{]", "[}", "[1}", '{"a":1]'),
    *("[1,]", "[,1]", "[,]", "[1,,2]", "[1 2]", "[1;2]", "[1:2]", '["a":1]', "[1]]", "[]]", "[][]"),
    *('{"a"}', '{"a":}', '{"a" 1}', '{"a"::1}', '{"a":1,}', '{,"a":1}', '{"a":1,,"b":2}', '{:1}'),
    *("{1:2}", "{a:1}", "{'a':1}", "{null:1}", "{true:1}", "{[]:1}", '{"a":1 "b":2}', '{"a","b"}'),
    *('{"a":1', '{"a":', '{"a"', '{"a', "{,}", "{{}}", '{"a":1}}', "[1]x", "1 2", "1,2", "[] {}", "null null"),
    *("1 // c", "/* c */ 1", "[1, /* c */ 2]", "# c\n1", "<!-- c -->1", "[1,\n//c\n2]"),
    *("\x0c1", "1\x0c", "\x0b1", "\xa01", "1\xa0", "\u20281", "\u30001", "\ufeff1", "1\ufeff", "\u200b1"),
    *("\x001", "1\x00", "\x00", "[1]\x00", "[\x001]", "1\x1a", "\x7f1", "\x1b[1m1"),
    *('"a\x00b"', '"a\x01b"', '"a\tb"', '"a\nb"', '"a\rb"', '"a\x1fb"', '{"a\nb":1}', '["\x08"]'),
    *("[" * 120 + "]" * 120, '{"a":' * 120 + "1" + "}" * 120, "[" * 100_000, '{"a":' * 100_000),
    *('[{"a":' * 60_000, "[" * 100_000 + "]" * 100_000, "]" * 100_000, '"' + "\\" * 9999 + '"'),
]  # fmt: skip

BAD_BYTES = [
    *(b'"\xff"', b'"\x80"', b'"\xc0\x80"', b'"\xc0\xaf"', b'"\xc1\xbf"', b'"\xe0\x80\x80"', b'"\xe0\x9f\xbf"'),
    *(b'"\xf0\x80\x80\x80"', b'"\xf0\x8f\xbf\xbf"', b'"\xed\xa0\x80"', b'"\xed\xbf\xbf"', b'"\xf4\x90\x80\x80"'),
    *(b'"\xf5\x80\x80\x80"', b'"\xf8\x88\x80\x80\x80"', b'"\xc3"', b'"\xe2\x82"', b'"\xf0\x9f\x98"', b'"a\xe9b"'),
    *(b'"\xed\xa0\xbd\xed\xb8\x80"', b'{"\xff":1}', b"\xff", b"\xfe\xff", b"\xef\xbb\xbf{}", b"\xef\xbb\xbf"),
    *("[1]".encode(code) for code in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "utf-7")[:5]),
    *('"é"'.encode(code) for code in ("utf-16-le", "utf-32-le", "latin-1")),
    *(b'"\\\xc3\xa9"', b'"\\\xff"', b'"\\u00\xc3\xa9"', b"\x80\x02K\x01.", b"\x93\x01", b"PK\x03\x04"),
]  # fmt: skip

REFUSED = [
    *(text.encode() for text in chain(BAD_NUMBERS.split(), BAD_WORDS.split(), BAD_STRINGS.split())),
    *(text.encode() for text in BAD_STRUCTURES),
    *BAD_BYTES,
]

#: lone surrogates: the grammar has them, Unicode has not
OPEN = [
    *(rb'"\ud800"', rb'"\uDFFF"', rb'"\udc00"', rb'"\ud800a"', rb'"\ud800\n"', rb'"\udc00\ud800"'),
    *(rb'"\ud800\ud800"', rb'"\ud800\u0041"', rb'["a","\uDADA"]', rb'{"\ud800":1}', rb'{"a":"\udead"}'),
    *(rb'"\ud83d\ude00\ud83d"', rb'"\u0041\uDBFF"'),
]  # fmt: skip

#: numbers that no reader here can hold
TOO_LARGE = [b"1e999", b"-1e999", b"1.0e+400", b"[1e400]", b"1" * 5000, b"-" + b"1" * 5000]
