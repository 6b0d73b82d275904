"""Compiles the reader of one message class in one version.

The function is `read(buffer, at) -> (message, position behind it)`. Consecutive fixed-size fields
and the length behind them are read by one struct; arrays of structs are loops in place. Running
out of bytes shows as IndexError or struct.error, which `codec.decode` turns into MalformedMessage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from towpath.kafka.codec import primitives
from towpath.kafka.codec.primitives import FORMATS, SIZES
from towpath.kafka.codec.schema import UNSET, ZERO_UUID, ApiMessage, Field, Message
from towpath.kafka.codec.source import Source

HELPERS: dict[str, Any] = {
    "read_varint": primitives.read_varint,
    "read_varint_rest": primitives.read_varint_rest,
    "skip_tagged_fields": primitives.skip_tagged_fields,
    "check_room": primitives.check_room,
    "malformed": primitives.malformed,
    "unpack_array": primitives.unpack_array,
    "UUID": UUID,
    "ZERO_UUID": ZERO_UUID,
    "ZERO_BYTES": bytes(16),
}
Read = Callable[[memoryview, int], tuple[Any, int]]


def compile_reader(message: type[ApiMessage], version: int) -> Read:
    """A reader of `message` in `version`."""
    compiler = _ReaderCompiler(version, version >= message.FLEXIBLE_SINCE)
    compiler.message(message)
    return compiler.source.compile("read", HELPERS, f"read {message.__name__} v{version}")


class _ReaderCompiler:
    """Writes the body field by field, holding back fixed-size fields to read them together."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = Source("read(buffer, at)")
        self._codes = ""
        self._targets: list[str] = []
        self._after: list[str] = []

    def message(self, message: type[Message]) -> None:
        self.source.line("end = len(buffer)")
        target = self.source.local("m")
        self._struct(message, target)
        self.source.line(f"return {target}, at")

    # Structs

    def _struct(self, struct: type[Message], target: str) -> None:
        """Read a struct into a new object named `target`."""
        cls = self.source.constant("cls", struct)
        self.source.line(f"{target} = {cls}.__new__({cls})")
        tagged: list[Field] = []
        for field in struct.FIELDS:
            if not field.in_version(self.version):
                self._set_default(field, f"{target}.{field.name}")
            elif field.is_tagged(self.version):
                self._set_default(field, f"{target}.{field.name}")
                tagged.append(field)
            else:
                self._field(field, f"{target}.{field.name}")
        if self.flexible:
            self._tagged_section(tagged, target)
        self._flush()

    def _set_default(self, field: Field, target: str) -> None:
        if field.default is not UNSET:
            value = self.source.constant("default", field.default, (field.name, field.default))
        elif field.array or field.struct is None:
            value = "[]"
        else:
            value = self.source.constant("cls", field.struct) + "()"
        self.source.line(f"{target} = {value}")

    def _tagged_section(self, tagged: list[Field], target: str) -> None:
        count = self._varint("t")
        with self.source.block(f"if {count}"):
            if not tagged:
                self.source.line(f"at = skip_tagged_fields(buffer, at, {count})")
                return
            self.source.line(f"check_room({count}, 2, end - at)")
            with self.source.block(f"for _ in range({count})"):
                self._one_tagged(tagged, target)

    def _one_tagged(self, tagged: list[Field], target: str) -> None:
        tag, size, stop = (self.source.local(p) for p in ("tag", "n", "e"))
        self.source.line(f"{tag}, at = read_varint(buffer, at)")
        self.source.line(f"{size}, at = read_varint(buffer, at)")
        self.source.line(f"{stop} = at + {size}")
        self.source.line(f"if {stop} > end: malformed('a tagged field exceeds the message')")
        for number, field in enumerate(tagged):
            with self.source.block(f"{'el' if number else ''}if {tag} == {field.tag}"):
                self._field(field, f"{target}.{field.name}")
                self._flush()
                self.source.line(
                    f"if at != {stop}: malformed('{field.name} has not its tagged size')"
                )
        with self.source.block("else"):
            self.source.line(f"at = {stop}")

    # Fields

    def _field(self, field: Field, target: str) -> None:
        if field.array:
            self._array(field, target)
        elif field.struct is not None:
            self._struct_field(field, field.struct, target)
        elif field.kind == "uuid":
            raw = self.source.local("u")
            self._hold("16s", raw)
            self._after.append(f"{target} = {_uuid(raw)}")
        elif field.kind in FORMATS:
            self._hold(FORMATS[field.kind], target)
        else:
            self._text_or_bytes(field, target)

    def _struct_field(self, field: Field, struct: type[Message], target: str) -> None:
        inner = self.source.local("m")
        if not field.is_nullable(self.version):
            self._struct(struct, inner)
            self.source.line(f"{target} = {inner}")
            return
        marker = self.source.local("n")
        self._hold("b", marker)
        self._flush()
        with self.source.block(f"if {marker} < 0"):
            self.source.line(f"{target} = None")
        with self.source.block("else"):
            self._struct(struct, inner)
            self.source.line(f"{target} = {inner}")

    def _text_or_bytes(self, field: Field, target: str) -> None:
        length = self._length("h" if field.kind == "string" else "i")
        with self._unless_null(field, length, target):
            self.source.line(f"{target} = {self._slice(field.kind, length)}")

    def _slice(self, kind: str, length: str) -> str:
        """Move behind a string or byte string of `length`; the expression of its value."""
        stop, start = self.source.local("e"), self.source.local("s")
        if kind == "string" and self.flexible:
            limit = primitives.STRING_MAX_BYTES
            self.source.line(f"if {length} > {limit}: malformed('a string is too long')")
        self.source.line(f"{start} = at")
        self.source.line(f"at = {stop} = at + {length}")
        self.source.line(f"if {stop} > end: malformed('a string exceeds the message')")
        if kind == "string":
            return f"str(buffer[{start}:{stop}], 'utf-8')"
        view = f"buffer[{start}:{stop}]"
        # The log writes offsets into the records that it keeps, as it may into the receive buffer.
        copied = "bytearray" if kind == "records" else "bytes"
        return f"{copied}({view}) if {length} < {primitives.COPY_BELOW_BYTES} else {view}"

    def _array(self, field: Field, target: str) -> None:
        length = self._length("i")
        with self._unless_null(field, length, target):
            least = self._least_bytes(field)
            self.source.line(
                f"if {length} * {least} > end - at: check_room({length}, {least}, end - at)"
            )
            if field.struct is None and field.kind in FORMATS:
                code = FORMATS[field.kind]
                self.source.line(f"{target} = unpack_array('{code}', {length}, buffer, at)")
                self.source.line(f"at += {length} * {SIZES[field.kind]}")
                return
            items = self.source.local("a")
            self.source.line(f"{target} = {items} = []")
            with self.source.block(f"for _ in range({length})"):
                self.source.line(f"{items}.append({self._element(field)})")

    def _element(self, field: Field) -> str:
        """Read one element; the expression of its value."""
        if field.struct is not None:
            inner = self.source.local("m")
            self._struct(field.struct, inner)
            return inner
        if field.kind == "uuid":
            raw = self.source.local("u")
            self._hold("16s", raw)
            self._flush()
            return _uuid(raw)
        length = self._length("h" if field.kind == "string" else "i")
        self.source.line(f"if {length} < 0: malformed('null inside {field.name}')")
        return self._slice(field.kind, length)

    def _least_bytes(self, field: Field) -> int:
        """The least number of bytes an element takes; never 0, so that counts are bounded."""
        if field.struct is None:
            return SIZES.get(field.kind, 1 if self.flexible else 2)
        return max(1, self._least_struct_bytes(field.struct))

    def _least_struct_bytes(self, struct: type[Message]) -> int:
        total = 1 if self.flexible else 0
        for field in struct.FIELDS:
            if not field.in_version(self.version) or field.is_tagged(self.version):
                continue
            if field.array or (field.struct is None and field.kind not in SIZES):
                short = 2 if field.kind == "string" and not field.array else 4
                total += 1 if self.flexible else short
            elif field.struct is None:
                total += SIZES[field.kind]
            elif field.is_nullable(self.version):
                total += 1
            else:
                total += self._least_struct_bytes(field.struct)
        return total

    # Lengths and fixed-size runs

    def _unless_null(self, field: Field, length: str, target: str) -> Any:
        """The block in which the value is not null."""
        if field.is_nullable(self.version):
            self.source.line(f"if {length} < 0: {target} = None")
            return self.source.block("else")
        self.source.line(f"if {length} < 0: malformed('{field.name} is null')")
        return self.source.block("if True")

    def _length(self, legacy_code: str) -> str:
        """Read a length; the name of the local that holds it, negative for null."""
        if not self.flexible:
            name = self.source.local("n")
            self._hold(legacy_code, name)
            self._flush()
            return name
        name = self._varint("n")
        self.source.line(f"{name} -= 1")
        return name

    def _varint(self, prefix: str) -> str:
        name = self.source.local(prefix)
        self._hold("B", name)
        self._flush()
        self.source.line(f"if {name} > 127: {name}, at = read_varint_rest(buffer, at, {name})")
        return name

    def _hold(self, code: str, target: str) -> None:
        self._codes += code
        self._targets.append(target)

    def _flush(self) -> None:
        """Read the fields that were held back."""
        if not self._targets:
            return
        if self._codes == "B":
            self.source.line(f"{self._targets[0]} = buffer[at]")
            self.source.line("at += 1")
        else:
            unpack, size = self.source.unpacker(self._codes)
            self.source.line(f"{', '.join(self._targets)}, = {unpack}(buffer, at)")
            self.source.line(f"at += {size}")
        for line in self._after:
            self.source.line(line)
        self._codes, self._targets, self._after = "", [], []


def _uuid(raw: str) -> str:
    return f"ZERO_UUID if {raw} == ZERO_BYTES else UUID(bytes={raw})"
