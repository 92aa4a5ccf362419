# SPDX-License-Identifier: Apache-2.0
"""Values at the next step are as the tables of docs/pipelines.md say."""

import collections
import dataclasses
import enum
import math
import re
import uuid
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from servekit.errors import ResultNotEncodable
from servekit.types import Audio, File
from servekit.types.values import register_value_type, registered, registered_by_name
from servekit.worker.codecs import value as value_codecs
from servekit.worker.codecs.value import model_value, model_values, value
from servekit.worker.codecs.value_writer import Pickles

PAGE = (Path(__file__).parents[3] / "docs/pipelines.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Between processes")[2].partition("\n## ")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: object
    at: object = ()
    size: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self):
        object.__setattr__(self, "size", self.size + 1)


@dataclasses.dataclass
class Plain:
    inner: object


@dataclasses.dataclass
class Outputs(collections.OrderedDict):
    """A dataclass that is a mapping, as ``ModelOutput`` of Transformers is."""

    logits: object = None

    def __post_init__(self):
        self["logits"] = self.logits


class Name(str):
    """A string that shows itself as another."""

    def __str__(self):
        return "another"


class Size(int):
    pass


class Struct(msgspec.Struct, frozen=True):
    a: object
    at: object = msgspec.field(name="renamed", default=None)


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Named(collections.namedtuple("Named", "x y")):
    __slots__ = ()


class Frame:
    """Known to nobody, until it is registered."""

    def __init__(self, pixels):
        self.pixels = pixels

    def __eq__(self, other):
        return type(other) is Frame and self.pixels == other.pixels


SUMMER = timezone(timedelta(hours=2))
NAIVE = datetime(2026, 1, 1, 3)
ID = uuid.UUID(int=7)


def arrives(given, codec=model_value):
    return codec.decode(codec.encode(given), {})


def same(found, expected):
    """Whether both are of the same types and values all the way down; NaN is NaN."""
    if type(found) is not type(expected):
        return False
    if isinstance(expected, float):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if type(expected) is dict:
        return same([*found.items()], [*expected.items()])
    if isinstance(expected, datetime | time):
        zones = found.tzinfo, expected.tzinfo
        offset = found.utcoffset() == expected.utcoffset()
        return offset and found.fold == expected.fold and type(zones[0]) is type(zones[1])
    return found == expected


# ------------------------------------------------------------ exactly the same

SAME = [
    *(None, True, 1 << 70, -1.5, "é", "\ud800", b"\0", [1, [2]], {"a": {1: 2}}, float("inf")),
    *((), (1, (2, [3])), [(1, "a"), (2, "b")], [(1, (2,))], {(1, 2): 3}, {1.5: {None: (1,)}}),
    *({7}, frozenset({7, (1, 2)}), {frozenset({1}): {2}}, set(), 1j, complex(-0.0, math.inf)),
    *(NAIVE, NAIVE.replace(tzinfo=UTC), NAIVE.replace(tzinfo=SUMMER), NAIVE.replace(fold=1)),
    *(NAIVE.replace(tzinfo=ZoneInfo("Europe/Paris"), fold=1), datetime.min, datetime.max),
    *(date(2026, 1, 1), time(3, 0, 1, 7), time(3, tzinfo=SUMMER), timedelta(-1, 2, 3)),
    *(Decimal("1.50"), Decimal("-0"), Decimal("1E+5000"), Decimal("sNaN12"), ID),
    *(Point(1, (2,)), Plain({"a": Point((), [Plain(None)])}), Struct(1, {2}), Named(1, (2,))),
    *(Colour.RED, Colour.PAIR, Level.HIGH, Access.READ, Access.READ | Access.WRITE, Access(0)),
    {True: 1, None: 2, b"a": [{b"b": {}}], -1: {"": ()}},
    {Colour.RED: Struct(Level.HIGH), ID: {date(2026, 1, 1): Named(1, 2)}},
]


@pytest.mark.parametrize("given", SAME, ids=lambda given: repr(given)[:60])
def test_the_same(given):
    found = arrives(given)

    assert repr(found) == repr(given)
    assert type(found) is type(given)


def test_a_name_of_a_zone_arrives():
    zone = timezone(timedelta(hours=2), "CEST")

    assert arrives(NAIVE.replace(tzinfo=zone)).tzname() == "CEST"


def test_post_init_does_not_run_again():
    assert arrives(Point(1)).size == 1


LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    *(st.complex_numbers(allow_nan=False), st.decimals(allow_nan=False), st.uuids()),
    *(st.dates(), st.timedeltas(), st.times(), st.datetimes(timezones=st.none() | st.timezones())),
    *(st.sampled_from([*Colour, *Level]), st.builds(Access, st.integers(0, 3))),
)
KEYS = st.one_of(st.integers(), st.text(), st.dates(), st.uuids(), st.tuples(st.integers()))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(KEYS, max_size=4),
        st.frozensets(KEYS, max_size=4),
        st.builds(Plain, inner),
        st.builds(Struct, inner, inner),
        st.builds(Named, inner, inner),
    ),
    max_leaves=20,
)


def flat(value):
    """Return *value* with the fields of its objects in lists, so that ``same`` sees them."""
    if isinstance(value, Plain):
        return [Plain, flat(value.inner)]
    if isinstance(value, Struct):
        return [Struct, flat(value.a), flat(value.at)]
    if type(value) is list:
        return [*map(flat, value)]
    if isinstance(value, tuple):
        return [type(value), *map(flat, value)]
    return {key: flat(each) for key, each in value.items()} if type(value) is dict else value


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES)
def test_any_value_is_the_same(given):
    assert same(flat(arrives(given)), flat(given))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES, max_size=4))
def test_any_list_is_cut_up_into_the_same(given):
    found = model_values.decode(model_values.encode(given), {})

    assert same(flat(found), flat(given))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64"])
@pytest.mark.parametrize("codec", [value, model_value])
def test_arrays_are_arrays(dtype, codec):
    found = arrives((np.ones((2, 0, 3), dtype),), codec)[0]

    assert (found.dtype, found.shape, found.flags.writeable) == (dtype, (2, 0, 3), False)


@pytest.mark.parametrize(
    "mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA", "I;16"]
)
@pytest.mark.parametrize("size", [(9, 3), (0, 4), (1, 1)])
def test_images_are_the_same(mode, size):
    image = Image.new(mode, size, 1)
    image.info = {"dpi": (72, 72), "exif": b"ab", "odd": object()}
    found = arrives({"image": image})["image"]
    del image.info["odd"]

    assert found == image
    assert found.info == image.info


def test_palettes_are_the_same():
    image = Image.linear_gradient("L").convert("RGB").quantize(8)
    image.info = {"transparency": 3}
    found = arrives(image)

    assert found == image
    assert found.convert("RGBA").tobytes() == image.convert("RGBA").tobytes()


def test_an_image_that_is_not_read_from_its_file_is(tmp_path):
    Image.new("RGB", (2, 2), "red").save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        found = arrives(image)

    assert (type(found), found.getpixel((1, 1))) == (Image.Image, (255, 0, 0))


def test_files_and_sound_are_the_same():
    file = arrives(File("a.txt", "text/plain", b"abc"))
    sound = arrives(Audio(np.zeros((3, 2), np.float32), 8000))

    assert (file.name, file.content_type, file.content) == ("a.txt", "text/plain", b"abc")
    assert (sound.samples.shape, sound.sample_rate) == ((3, 2), 8000)


# ------------------------------------------------------------ something else


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float32(1.5), 1.5),
        (np.float64(1.5), 1.5),
        (np.int64(3), 3),
        ([np.str_("a"), np.bytes_(b"b")], ["a", b"b"]),
        ({np.str_("a"): np.float64(1)}, {"a": 1.0}),
        ((Name("\ud800"), Size(1 << 70)), ("\ud800", 1 << 70)),
        (np.array(["a"]), ["a"]),
        (np.array([None]), [None]),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (collections.OrderedDict(a=(1,)), {"a": (1,)}),
        (collections.defaultdict(list, a=1), {"a": 1}),
        (Outputs((1,)), {"logits": (1,)}),
    ],
)
@pytest.mark.parametrize("codec", [value, model_value])
def test_something_else(given, expected, codec):
    found = arrives(given, codec)

    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Struct(1, 2), {"a": 1, "renamed": 2}),
        (Plain((2,)), {"inner": [2]}),
        (Named(1, 2), (1, 2)),
        (Colour.RED, "red"),
        (Colour.PAIR, (1, 2)),
        (Level.HIGH, 3),
        ([Plain(1 << 70), Struct(1 << 70)], [{"inner": 1 << 70}, {"a": 1 << 70, "renamed": None}]),
    ],
)
def test_objects_of_another_models_classes_are_mappings_lists_and_values(given, expected):
    assert arrives(given, value) == expected


def test_classes_that_cannot_be_imported_are_mappings():
    @dataclasses.dataclass
    class Local:
        x: int

    assert arrives([Local(1)]) == [{"x": 1}]


@pytest.mark.parametrize("given", [(1, {2}), NAIVE, ID, Decimal(1), 1j], ids=repr)
def test_built_in_types_are_the_same_for_another_model(given):
    assert arrives(given, value) == given


@pytest.mark.parametrize("given", [Path("a"), collections.deque(), iter(()), object(), Frame(1)])
@pytest.mark.parametrize("codec", [value, model_value])
def test_nothing(given, codec):
    with pytest.raises(ResultNotEncodable, match=f"a {type(given).__name__} cannot travel") as no:
        codec.encode([given])
    assert ("register_value_type" in str(no.value)) == (codec is model_value)


def test_more_types_than_are_remembered_are_written():
    kinds = [dataclasses.make_dataclass(f"Made{number}", ["x"]) for number in range(1200)]

    assert arrives([kind((1,)) for kind in kinds]) == [{"x": [1]}] * 1200


@pytest.mark.parametrize(
    "wrap", [lambda loop: (loop,), lambda loop: loop, lambda loop: {"a": loop}]
)
def test_what_contains_itself_is_refused(wrap):
    loop = []
    loop += [wrap(loop)] * 3

    with pytest.raises(ResultNotEncodable):
        model_value.encode(loop)


def test_the_table_names_every_kind():
    named = set(re.findall(r"`(\w+)`", TABLE))
    kinds = {"tuple", "set", "frozenset", "bytearray", "memoryview", "Struct", "OrderedDict"}
    kinds |= {"datetime", "date", "time", "timedelta", "Decimal", "UUID", "Enum", "Path", "complex"}
    kinds |= {"File", "Audio", "deque"}

    assert kinds <= named


# ------------------------------------------------------------ registered types


@pytest.fixture
def known_frame():
    """Register ``Frame`` for one test."""
    register_value_type(Frame, write=lambda frame: frame.pixels, read=Frame)
    yield
    registered.clear()
    registered_by_name.clear()
    for codec in (value, model_value):
        for writer in codec._writers:
            writer.clear()
            writer._begin()


@pytest.mark.parametrize("codec", [value, model_value])
def test_a_registered_type_arrives(known_frame, codec):
    assert arrives({"a": Frame((1, Frame({2})))}, codec)["a"].pixels == (1, Frame({2}))


def test_a_subclass_arrives_as_the_registered_type(known_frame):
    assert type(arrives(type("Other", (Frame,), {})(1))) is Frame


def test_a_type_is_registered_once(known_frame):
    with pytest.raises(ValueError, match="Frame is registered already"):
        register_value_type(Frame, write=str, read=str)


@pytest.mark.parametrize(("codec", "reason"), [(value, "not registered"), (model_value, "import")])
def test_a_type_that_the_reader_does_not_know_is_named(known_frame, codec, reason):
    body = codec.encode(Frame(1)).replace(b"test_between_stages", b"test_between_others")

    with pytest.raises(LookupError, match=reason):
        codec.decode(body, {})


# ------------------------------------------------------------ what another process may send


def test_no_class_is_imported_for_another_model():
    body = model_value.encode(Plain(1))

    with pytest.raises(LookupError, match="has the extension 67"):
        value.decode(body, {})


@pytest.mark.parametrize("name", ["os:system", "os:nothing", "nowhere:Class", "builtins:dict"])
@pytest.mark.parametrize("letter", "ESDN")
def test_a_name_is_that_of_a_class_of_its_kind(name, letter):
    payload = msgspec.msgpack.encode([letter, name, []])
    body = msgspec.msgpack.encode(msgspec.msgpack.Ext(67, payload))

    with pytest.raises(LookupError):
        model_value.decode(body, {})


@pytest.mark.parametrize("size", [(1 << 20, 1 << 20), (-1, 5), (2, 2)])
def test_an_image_is_not_made_larger_than_its_pixels(size):
    payload = msgspec.msgpack.encode(["PIL.Image:Image", ["RGB", size, b"abc", None, {}]])

    with pytest.raises(ValueError, match="image of"):
        model_value.decode(msgspec.msgpack.encode(msgspec.msgpack.Ext(79, payload)), {})


@given(st.integers(0, 127), st.binary(max_size=40), st.sampled_from([value, model_value]))
def test_any_extension_is_read_or_refused(code, payload, codec):
    body = msgspec.msgpack.encode(msgspec.msgpack.Ext(code, payload))
    with suppress(Exception):  # each is a 500 in the log; nothing worse happens
        codec.decode(body, {})


# ------------------------------------------------------------ pickles


@pytest.fixture
def with_pickles(monkeypatch):
    """Allow pickles, as a worker does whose manifest says so."""
    writers = [*model_value._writers]
    value_codecs.allow_pickles()
    yield
    for writer in writers:
        writer.pickles = None
    model_value._reader.pickles = None


def test_pickles_carry_what_nothing_else_does(with_pickles):
    found = arrives([Frame({1}), (Path("a"), Plain(collections.deque([1])))])

    assert found == [Frame({1}), (Path("a"), Plain(collections.deque([1])))]


def test_what_cannot_be_pickled_is_named(with_pickles):
    with pytest.raises(ResultNotEncodable, match="a generator cannot be pickled"):
        model_value.encode([(each for each in ())])


def test_no_pickle_is_read_that_is_not_allowed(with_pickles):
    body = model_value.encode(Frame(1))
    with pytest.raises(LookupError, match="has the extension 80"):
        value.decode(body, {})
    model_value._reader.pickles = None

    with pytest.raises(LookupError, match="has the extension 80"):
        model_value.decode(body, {})


def test_pickles_are_not_for_other_models(with_pickles):
    assert Pickles._fields == ("write", "read")
    with pytest.raises(ResultNotEncodable, match="a Frame cannot travel"):
        value.encode(Frame(1))
