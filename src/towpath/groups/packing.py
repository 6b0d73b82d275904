"""How a group's state becomes a root and blobs, and back.

Small contents stay inside the root up to a total, so that an ordinary group is one key and one
write; what is larger becomes blobs. A content that the old root already names keeps its name, so a
change writes only what is new.
"""

from __future__ import annotations

from collections.abc import Mapping

from towpath.groups.state import GroupState
from towpath.metadata.keys import groups as keys
from towpath.metadata.keys.groups import GroupRoot
from towpath.metadata.keys.json_value import Fields, UnknownValueVersion

INLINE_TOTAL_MAX_BYTES = 8_192
"""Bytes of all contents inside one root."""
INLINE_MAX_BYTES = 1_024
"""Bytes of one content inside the root."""
INLINE_MARK = "="
"""First character of the name of an inline content; its number follows."""


class Packer:
    """Names contents while a state is packed."""

    def __init__(self, base: int, old_blobs: Mapping[str, bytes]) -> None:
        self._base = base
        self._old_names = {content: name for name, content in old_blobs.items()}
        self._names: dict[bytes, str] = {}
        self._inline: list[bytes] = []
        self._inline_bytes = 0
        self.blobs: dict[str, bytes] = {}
        """Every blob that the new root names, old ones too."""

    def name(self, content: bytes) -> str:
        """The name of the content in the new root."""
        found = self._names.get(content)
        if found is None:
            found = self._names[content] = self._new_name(content)
        return found

    def _new_name(self, content: bytes) -> str:
        size_bytes = len(content)
        if (
            size_bytes <= INLINE_MAX_BYTES
            and self._inline_bytes + size_bytes <= INLINE_TOTAL_MAX_BYTES
        ):
            self._inline.append(content)
            self._inline_bytes += size_bytes
            return f"{INLINE_MARK}{len(self._inline) - 1}"
        name = self._old_names.get(content) or keys.blob_name(self._base, content)
        self.blobs[name] = content
        return name

    def root(self, state: GroupState, writer: str) -> GroupRoot:
        """Pack the state; afterwards `blobs` is complete."""
        fields = state.pack(self.name)
        return GroupRoot(
            state.KIND,
            writer,
            state.state_name,
            state.protocol_type,
            tuple(sorted(self.blobs)),
            tuple(self._inline),
            fields,
        )


def unpack(
    root: GroupRoot, blobs: Mapping[str, bytes], kinds: Mapping[str, type[GroupState]]
) -> GroupState:
    """The state of a root whose blobs were read."""
    kind = kinds.get(root.kind)
    if kind is None:
        raise UnknownValueVersion(f"group of the unknown kind {root.kind!r}")

    def content(name: str) -> bytes:
        if name.startswith(INLINE_MARK):
            return root.inline[int(name[len(INLINE_MARK) :])]
        return blobs[name]

    try:
        return kind.unpack(Fields(root.fields), content)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise UnknownValueVersion(f"damaged group of kind {root.kind}: {error!r}") from error
