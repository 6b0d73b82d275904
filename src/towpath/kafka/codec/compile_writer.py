"""Compiles the writer of one message class in one version.

The function is `write(message, out, chunks) -> out`: it adds to the bytearray `out`. Large byte
strings are passed by reference: what was written so far and the byte string go to `chunks`, and
writing goes on in a new bytearray, which is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from towpath.kafka.codec import primitives
from towpath.kafka.codec.kept_array import MAY_BE_KEPT, KeptArray
from towpath.kafka.codec.primitives import FORMATS
from towpath.kafka.codec.schema import UNSET, ApiMessage, Field, Message
from towpath.kafka.codec.source import Source
from towpath.objects.store import Buffer

HELPERS: dict[str, Any] = {
    "KeptArray": KeptArray,
    "varint": primitives.varint,
    "string_bytes": primitives.string_bytes,
    "size_of": primitives.size_of,
    "put_bytes": primitives.put_bytes,
    "pack_array": primitives.pack_array,
}
Write = Callable[[Any, bytearray, list[Buffer]], bytearray]


def compile_writer(message: type[ApiMessage], version: int) -> Write:
    """A writer of `message` in `version`."""
    compiler = _WriterCompiler(version, version >= message.FLEXIBLE_SINCE)
    compiler.message(message)
    return compiler.source.compile("write", HELPERS, f"write {message.__name__} v{version}")


class _WriterCompiler:
    """Writes the body field by field, holding back fixed-size fields to pack them together."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = Source("write(message, out, chunks)")
        self._codes = ""
        self._values: list[str] = []

    def message(self, message: type[Message]) -> None:
        self._struct(message, "message")
        self._flush()
        self.source.line("return out")

    # Structs

    def _struct(self, struct: type[Message], value: str) -> None:
        tagged: list[Field] = []
        for field in struct.FIELDS:
            if not field.in_version(self.version):
                continue
            if field.is_tagged(self.version):
                tagged.append(field)
            else:
                self._field(field, f"{value}.{field.name}")
        if not self.flexible:
            return
        if tagged:
            self._tagged_section(sorted(tagged, key=lambda f: f.tag or 0), value)
        else:
            # A pad byte is a zero: no tagged fields.
            self._codes += "x"

    def _tagged_section(self, tagged: list[Field], value: str) -> None:
        """Collect the fields that differ from their defaults, then write count and fields."""
        self._flush()
        section, before = self.source.local("tags"), self.source.local("out")
        self.source.line(f"{section} = []")
        for field in tagged:
            item = f"{value}.{field.name}"
            with self.source.block(f"if {self._differs(field, item)}"):
                self.source.line(f"{before} = out")
                self.source.line("out = bytearray()")
                self._field(field, item)
                self._flush()
                self.source.line(f"{section}.append(({field.tag}, out))")
                self.source.line(f"out = {before}")
        with self.source.block(f"if {section}"):
            self.source.line(f"out += varint(len({section}))")
            with self.source.block(f"for tag, body in {section}"):
                self.source.line("out += varint(tag) + varint(len(body)) + body")
        with self.source.block("else"):
            self.source.line("out += b'\\0'")

    def _differs(self, field: Field, item: str) -> str:
        """The expression that tells whether a tagged field must be written."""
        if field.default is not UNSET:
            if field.default is None:
                return f"{item} is not None"
            default = self.source.constant("default", field.default, (field.name, field.default))
            return f"{item} != {default}"
        if field.array or field.struct is None:
            return f"{item} is None or {item}" if field.is_nullable(self.version) else item
        inner = [f for f in field.struct.FIELDS if f.in_version(self.version)]
        return " or ".join(self._differs(f, f"{item}.{f.name}") for f in inner) or "False"

    # Fields

    def _field(self, field: Field, value: str) -> None:
        if field.array:
            self._array(field, value)
        elif field.struct is not None:
            self._struct_field(field, field.struct, value)
        elif field.kind == "uuid":
            self._hold("16s", f"{value}.bytes")
        elif field.kind in FORMATS:
            self._hold(FORMATS[field.kind], value)
        else:
            self._text_or_bytes(field, value)

    def _struct_field(self, field: Field, struct: type[Message], value: str) -> None:
        inner = self.source.local("m")
        self.source.line(f"{inner} = {value}")
        if not field.is_nullable(self.version):
            self._struct(struct, inner)
            return
        self._flush()
        with self.source.block(f"if {inner} is None"):
            self.source.line("out += b'\\xff'")
        with self.source.block("else"):
            self.source.line("out += b'\\1'")
            self._struct(struct, inner)
            self._flush()

    def _text_or_bytes(self, field: Field, value: str) -> None:
        length, body = self.source.local("n"), self.source.local("b")
        is_text = field.kind == "string"
        self.source.line(f"{body} = {value}")
        present = f"{body} = string_bytes({body}); {length} = len({body})"
        if not is_text:
            present = f"{length} = size_of({body})"
        if field.is_nullable(self.version):
            self.source.line(f"if {body} is None: {body} = b''; {length} = -1")
            self.source.line(f"else: {present}")
        else:
            self.source.line(present)
        self._length(length, "h" if is_text else "i")
        add = f"out += {body}" if is_text else f"out = put_bytes(out, chunks, {body})"
        self.source.line(add)

    def _array(self, field: Field, value: str) -> None:
        length, items = self.source.local("n"), self.source.local("a")
        self.source.line(f"{items} = {value}")
        if field.is_nullable(self.version):
            self.source.line(f"if {items} is None: {items} = (); {length} = -1")
            self.source.line(f"else: {length} = len({items})")
        else:
            self.source.line(f"{length} = len({items})")
        self._length(length, "i")
        if field.struct is None and field.kind in FORMATS:
            self.source.line(f"out += pack_array('{FORMATS[field.kind]}', {items})")
            return
        if field.struct is not None and field.struct.__name__ in MAY_BE_KEPT:
            self._kept_elements(field, items)
        else:
            self._elements(field, items)

    def _elements(self, field: Field, items: str) -> None:
        element = self.source.local("o")
        with self.source.block(f"for {element} in {items}"):
            self._element(field, element)
            self._flush()

    def _kept_elements(self, field: Field, items: str) -> None:
        """Write the elements, or what they were written to before. The struct has no byte strings:
        one that is passed by reference would part the array."""
        assert field.struct is not None
        assert all(f.kind not in ("bytes", "records") for f in field.struct.FIELDS)
        kept, before = self.source.local("k"), self.source.local("out")
        line, block = self.source.line, self.source.block
        line(f"{kept} = {items}.encoded.get({self.version}) if type({items}) is KeptArray else b''")
        with block(f"if {kept}"):
            line(f"out += {kept}")
        with block("else"):
            line(f"{before}, out = out, bytearray()")
            self._elements(field, items)
            with block(f"if {kept} is None"):
                line(f"{items}.encoded[{self.version}] = bytes(out)")
            line(f"{before} += out; out = {before}")

    def _element(self, field: Field, element: str) -> None:
        if field.struct is not None:
            self._struct(field.struct, element)
        elif field.kind == "uuid":
            self._hold("16s", f"{element}.bytes")
        elif field.kind == "string":
            body = self.source.local("b")
            self.source.line(f"{body} = string_bytes({element})")
            self._length(f"len({body})", "h")
            self.source.line(f"out += {body}")
        else:
            self._length(f"size_of({element})", "i")
            self.source.line(f"out = put_bytes(out, chunks, {element})")

    # Lengths and fixed-size runs

    def _length(self, length: str, legacy_code: str) -> None:
        """Write a length, -1 for null, together with the fields that were held back."""
        if not self.flexible:
            self._hold(legacy_code, length)
            self._flush()
            return
        codes, values = self._codes, list(self._values)
        self._hold("B", f"{length} + 1")
        with self.source.block(f"if {length} < 127"):
            self._flush()
        with self.source.block("else"):
            self._codes, self._values = codes, values
            self._flush()
            self.source.line(f"out += varint({length} + 1)")

    def _hold(self, code: str, value: str) -> None:
        self._codes += code
        self._values.append(value)

    def _flush(self) -> None:
        """Pack the fields that were held back."""
        if self._codes == "x":
            self.source.line("out += b'\\0'")
        elif self._codes:
            pack = self.source.packer(self._codes)
            self.source.line(f"out += {pack}({', '.join(self._values)})")
        self._codes, self._values = "", []
