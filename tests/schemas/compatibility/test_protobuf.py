"""Protobuf: the parser beside protoc, texts, and Confluent's rules by example and by encoded messages."""

from __future__ import annotations

import base64
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from ottla.schemas.compatibility.parsed_schema import (
    Budget,
    ReferencedSchema,
    SchemaError,
    SchemaTooComplexError,
)
from ottla.schemas.compatibility.proto_parser import parse_proto
from ottla.schemas.compatibility.protobuf_schema import parse_protobuf

PROTO2 = """
syntax = "proto2";
package a.b;
import public "google/protobuf/any.proto";
option java_package = "x"; option optimize_for = CODE_SIZE;
message M {
  required int32 id = 1;
  optional string name = 2 [default = "x\\"\\n", deprecated = true];
  optional bytes data = 3 [default = "\\001a\\xff"];
  optional double d = 4 [default = -1.5e3]; optional float f = 5 [default = inf];
  repeated sint64 many = 6 [packed = true];
  optional E e = 7 [default = B, json_name = "eee"];
  optional group Part = 8 { optional int32 x = 1; }
  map<int32, .a.b.M.Inner> by = 9;
  extensions 100 to 199, 500 to max;
  reserved 20, 22 to 25; reserved "gone";
  oneof choice { uint32 u = 30; M again = 31; }
  message Inner { option deprecated = true; optional Deep message = 1; message Deep { } }
  enum E { option allow_alias = true; A = 0; B = 1; C = 0x01; D = -2; reserved 7 to max; }
  extend M { optional int32 extra = 100; }
}
extend M { optional int32 more = 101; }
service S { rpc Get (M) returns (stream M.Inner); rpc Put (stream M) returns (M) { option deprecated = true; } }
"""
PROTO3 = """
// A file.
syntax = "proto3";
import "google/protobuf/timestamp.proto";
/* Message
 * of two lines. */
message Order {
  string id = 1; // the id
  optional int32 count = 2;
  repeated Item items = 3;
  google.protobuf.Timestamp at = 4;
  map<string, Status> states = 5;
  oneof pay { string card = 6; double cash_paid = 7; }
  message Item { fixed64 n = 1; bool required = 2; string optional = 3; }
  enum Status { UNKNOWN = 0; PAID = 1; }
}
"""


@pytest.mark.parametrize("text", [PROTO2, PROTO3], ids=["proto2", "proto3"])
def test_the_parser_makes_what_protoc_makes(text: str, tmp_path: Path) -> None:
    tools = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    (tmp_path / "f.proto").write_text(text)
    well_known = Path(tools.__file__).parent / "_proto"
    made = tmp_path / "made"
    arguments = [f"-I{tmp_path}", f"-I{well_known}", f"-o{made}", str(tmp_path / "f.proto")]
    assert tools.main(["protoc", *arguments]) == 0
    (expected,) = pb.FileDescriptorSet.FromString(made.read_bytes()).file
    parsed = parse_protobuf(text).file
    parsed.name = "f.proto"
    parsed.ClearField("source_code_info")
    for field in [*_fields(parsed), *_fields(expected)]:
        field.ClearField("json_name")
    assert parsed == expected


def _fields(file: pb.FileDescriptorProto) -> list[pb.FieldDescriptorProto]:
    def inside(messages: Any) -> list[pb.FieldDescriptorProto]:
        return [
            field
            for each in messages
            for field in (*each.field, *each.extension, *inside(each.nested_type))
        ]

    return [*file.extension, *inside(file.message_type)]


@pytest.mark.parametrize("text", [PROTO2, PROTO3], ids=["proto2", "proto3"])
def test_the_printed_text_is_the_same_schema(text: str) -> None:
    parsed = parse_protobuf(text)
    again = parse_protobuf(parsed.canonical)
    assert again.canonical == parsed.canonical
    assert again.formatted("serialized") == parsed.formatted("serialized")
    decoded = parse_protobuf(parsed.formatted("serialized"))
    assert decoded.formatted("serialized") == parsed.formatted("serialized")
    assert parse_protobuf(parsed.normalized).normalized == parsed.normalized


def test_a_text_is_printed_anew_with_its_comments() -> None:
    assert (
        parse_protobuf(PROTO3).canonical
        == """\
syntax = "proto3";

import "google/protobuf/timestamp.proto";

// Message
// of two lines.
message Order {
  // the id
  string id = 1;
  optional int32 count = 2;
  repeated Order.Item items = 3;
  google.protobuf.Timestamp at = 4;
  map<string, Order.Status> states = 5;
  oneof pay {
    string card = 6;
    double cash_paid = 7;
  }
  message Item {
    fixed64 n = 1;
    bool required = 2;
    string optional = 3;
  }
  enum Status {
    UNKNOWN = 0;
    PAID = 1;
  }
}
"""
    )


def test_options_that_are_not_known_are_kept() -> None:
    text = 'syntax = "proto3"; message M { int32 a = 1 [(x.y).z = { k: "v" n: [1, 2] }, (flag) = true]; }'
    printed = parse_protobuf(text).canonical
    assert '(x.y).z = { k : "v" n : [ 1 , 2 ] }, (flag) = true' in printed
    assert parse_protobuf(printed).canonical == printed


def test_imports_are_references_or_well_known() -> None:
    item = ReferencedSchema(
        "item.proto", 'syntax = "proto3"; package p; message Item { int32 n = 1; }'
    )
    text = 'syntax = "proto3"; import "item.proto"; message Order { p.Item item = 1; }'
    parsed = parse_protobuf(text, [item])
    assert "  p.Item item = 1;" in parsed.canonical
    with pytest.raises(SchemaError, match=r'give a reference with the name "item\.proto"'):
        parse_protobuf(text)
    other = ReferencedSchema("item.proto", item.text.replace("int32", "string"))
    found = parse_protobuf(text, [other]).problems_reading(parsed, Budget())
    assert [each.error_type for each in found] == ["FIELD_NAMED_TYPE_CHANGED"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '"int"',
        'syntax = "proto4";',
        "message M {",
        'syntax = "proto3"; message M { int32 a; }',
        'syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }',
        'syntax = "proto3"; message M { Unknown a = 1; }',
        'syntax = "proto3"; message M { int32 a = 0; }',
        'syntax = "proto3"; enum E { A = 1; }',
        'syntax = "proto3"; message M { int32 a = 99999999999; }',
        base64.b64encode(b"not a descriptor").decode(),
        "AAAA",
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(text: str) -> None:
    if text == "":
        assert parse_protobuf(text).canonical == 'syntax = "proto2";\n'
        return
    with pytest.raises(SchemaError):
        parse_protobuf(text)


def test_depth_has_a_limit() -> None:
    with pytest.raises(SchemaTooComplexError):
        parse_protobuf("message M {" * 300 + "}" * 300)


@given(st.text(max_size=60) | st.lists(
    st.sampled_from(["message", "M", "{", "}", "int32", "=", "1", ";", "oneof", "map", "<", ",", ">",
                     "option", "(", ")", "[", "]", '"x"', "enum", "reserved", "to", "max", "repeated"]),
    max_size=14).map(" ".join))  # fmt: skip
def test_garbage_is_a_schema_error(text: str) -> None:
    try:
        parsed = parse_protobuf(text)
    except SchemaError:
        return
    assert parse_protobuf(parsed.canonical).canonical == parsed.canonical


def message(body: str, more: str = "") -> str:
    return f'syntax = "proto3"; package p; message M {{ {body} }} {more}'


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        (message("int64 b = 1;"), message("int32 a = 1;"), []),
        (message("string a = 1;"), message("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (message("sint32 a = 1;"), message("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (message("bytes a = 1;"), message("string a = 1;"), []),
        (message("M a = 1;"), message("int32 a = 1;"), ["FIELD_KIND_CHANGED"]),
        (message("int32 a = 1; int32 b = 2;"), message("int32 a = 1;"), []),
        (message(""), message("int32 a = 1;"), []),
        (message("repeated int32 a = 1;"), message("int32 a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED"]),
        (message("repeated string a = 1;"), message("string a = 1;"), []),
        (message("N a = 1;", "message N {}"), message("M a = 1;", "message N {}"), ["FIELD_NAMED_TYPE_CHANGED"]),
        (message("", "message N {}"), message(""), []),
        (message(""), message("", "message N {}"), ["MESSAGE_REMOVED"]),
        (message("").replace("package p", "package q"), message(""), ["PACKAGE_CHANGED"]),
        (message("map<string, int64> a = 1;"), message("map<string, int32> a = 1;"), []),
        (message("map<string, string> a = 1;"), message("map<string, int32> a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
        (message("int32 a = 1;"), message("map<string, int32> a = 1;"), ["FIELD_KIND_CHANGED"]),
        (message("oneof o { int32 a = 1; }"), message("int32 a = 1;"), []),
        (message("oneof o { int32 a = 1; int32 b = 2; }"), message("int32 a = 1; int32 b = 2;"),
         ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"]),
        (message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof o { int32 a = 1; } int32 b = 2;"),
         ["FIELD_MOVED_TO_EXISTING_ONEOF"]),
        (message("oneof o { int32 a = 1; }"), message("oneof o { int32 a = 1; int32 b = 2; }"),
         ["ONEOF_FIELD_REMOVED"]),
        (message(""), message("oneof o { int32 a = 1; int32 b = 2; }"), []),
        (message("int32 a = 1;"), message("optional int32 a = 1;"), []),
        ("message M { required int32 a = 1; }", "message M { optional int32 a = 1; }", ["REQUIRED_FIELD_ADDED"]),
        ("message M { required int32 a = 1; }", "message M { }", ["REQUIRED_FIELD_ADDED"]),
        ("message M { }", "message M { required int32 a = 1; }", ["REQUIRED_FIELD_REMOVED"]),
    ],
)  # fmt: skip
def test_rules(new: str, old: str, expected: list[str]) -> None:
    found = parse_protobuf(new).problems_reading(parse_protobuf(old), Budget())
    assert [each.error_type for each in found] == expected


# Random messages: what was written is read, by number

_TYPES = [
    "int32",
    "int64",
    "uint32",
    "bool",
    "sint32",
    "sint64",
    "string",
    "bytes",
    "fixed32",
    "double",
    "E",
    "N",
]
_VALUES: dict[str, Any] = {"string": "abc", "bytes": b"abc", "double": 1.5, "bool": True, "E": 1}


def random_message(rng: random.Random) -> dict[int, str]:
    labels = ["", "", "repeated "]
    numbers = rng.sample(range(1, 7), rng.randint(1, 5))
    return {number: rng.choice(labels) + rng.choice(_TYPES) for number in numbers}


def text_of(fields: dict[int, str]) -> str:
    body = " ".join(f"{kind} f{number} = {number};" for number, kind in fields.items())
    return message(body, "enum E { ZERO = 0; ONE = 1; } message N { int32 n = 1; }")


def class_of(text: str) -> Any:
    pool = DescriptorPool()
    pool.Add(parse_proto(text, "f.proto"))
    return GetMessageClass(pool.FindMessageTypeByName("p.M"))


def test_compatible_means_that_every_field_is_read_by_its_number() -> None:
    verdicts = Counter[bool]()
    for seed in range(500):
        rng = random.Random(seed)
        old = random_message(rng)
        new = {n: kind for n, kind in old.items() if rng.random() < 0.9}
        if rng.random() < 0.7 and new:
            number = rng.choice([*new])
            new[number] = random_message(rng).popitem()[1]
        before, after = parse_protobuf(text_of(old)), parse_protobuf(text_of(new))
        is_compatible = not after.problems_reading(before, Budget())
        verdicts[is_compatible] += 1
        if not is_compatible:
            continue
        written = class_of(text_of(old))()
        for number, kind in old.items():
            set_field(written, f"f{number}", kind)
        try:
            read = class_of(text_of(new)).FromString(written.SerializeToString())
        except DecodeError as error:
            raise AssertionError(f"seed {seed}: {new} does not read {old}") from error
        present = {field.number for field, _ in read.ListFields()}
        assert present == set(old) & set(new), f"seed {seed}: {new} of {old}"
    assert min(verdicts.values()) > 50


def set_field(written: Any, name: str, kind: str) -> None:
    value = _VALUES.get(kind.removeprefix("repeated "), 7)
    if kind == "N":
        getattr(written, name).n = 7
    elif kind == "repeated N":
        getattr(written, name).add(n=7)
    elif kind.startswith("repeated"):
        getattr(written, name).extend([value, value])
    else:
        setattr(written, name, value)
