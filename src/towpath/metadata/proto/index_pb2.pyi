from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FileType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FILE_TYPE_UNSPECIFIED: _ClassVar[FileType]
    WAL: _ClassVar[FileType]
    PARQUET: _ClassVar[FileType]
    TOMBSTONE: _ClassVar[FileType]
FILE_TYPE_UNSPECIFIED: FileType
WAL: FileType
PARQUET: FileType
TOMBSTONE: FileType

class IndexEntry(_message.Message):
    __slots__ = ("version", "file_type", "record_count", "created_at_ms", "min_timestamp_ms", "max_timestamp_ms", "wal", "parquet", "wal_bytes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FILE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    WAL_FIELD_NUMBER: _ClassVar[int]
    PARQUET_FIELD_NUMBER: _ClassVar[int]
    WAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    version: int
    file_type: FileType
    record_count: int
    created_at_ms: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    wal: WalLocation
    parquet: _containers.RepeatedCompositeFieldContainer[ParquetFile]
    wal_bytes: int
    def __init__(self, version: _Optional[int] = ..., file_type: _Optional[_Union[FileType, str]] = ..., record_count: _Optional[int] = ..., created_at_ms: _Optional[int] = ..., min_timestamp_ms: _Optional[int] = ..., max_timestamp_ms: _Optional[int] = ..., wal: _Optional[_Union[WalLocation, _Mapping]] = ..., parquet: _Optional[_Iterable[_Union[ParquetFile, _Mapping]]] = ..., wal_bytes: _Optional[int] = ...) -> None: ...

class WalLocation(_message.Message):
    __slots__ = ("wal_id", "path", "chunk_offset", "chunk_length", "batches")
    WAL_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CHUNK_OFFSET_FIELD_NUMBER: _ClassVar[int]
    CHUNK_LENGTH_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    wal_id: bytes
    path: str
    chunk_offset: int
    chunk_length: int
    batches: _containers.RepeatedCompositeFieldContainer[BatchRow]
    def __init__(self, wal_id: _Optional[bytes] = ..., path: _Optional[str] = ..., chunk_offset: _Optional[int] = ..., chunk_length: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[BatchRow, _Mapping]]] = ...) -> None: ...

class BatchRow(_message.Message):
    __slots__ = ("start_offset_delta", "last_offset_delta", "offset_in_chunk", "length", "min_timestamp_ms", "max_timestamp_ms", "producer")
    START_OFFSET_DELTA_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_DELTA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_IN_CHUNK_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    MIN_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    start_offset_delta: int
    last_offset_delta: int
    offset_in_chunk: int
    length: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    producer: Producer
    def __init__(self, start_offset_delta: _Optional[int] = ..., last_offset_delta: _Optional[int] = ..., offset_in_chunk: _Optional[int] = ..., length: _Optional[int] = ..., min_timestamp_ms: _Optional[int] = ..., max_timestamp_ms: _Optional[int] = ..., producer: _Optional[_Union[Producer, _Mapping]] = ...) -> None: ...

class Producer(_message.Message):
    __slots__ = ("id", "epoch", "first_sequence")
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    id: int
    epoch: int
    first_sequence: int
    def __init__(self, id: _Optional[int] = ..., epoch: _Optional[int] = ..., first_sequence: _Optional[int] = ...) -> None: ...

class ParquetFile(_message.Message):
    __slots__ = ("parquet_id", "path", "size_bytes", "iceberg_data_file_id", "record_count", "first_offset_delta", "last_offset_delta", "min_timestamp_ms", "max_timestamp_ms", "footer_bytes", "value_stamp")
    PARQUET_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ICEBERG_DATA_FILE_ID_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_DELTA_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_DELTA_FIELD_NUMBER: _ClassVar[int]
    MIN_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    FOOTER_BYTES_FIELD_NUMBER: _ClassVar[int]
    VALUE_STAMP_FIELD_NUMBER: _ClassVar[int]
    parquet_id: bytes
    path: str
    size_bytes: int
    iceberg_data_file_id: str
    record_count: int
    first_offset_delta: int
    last_offset_delta: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    footer_bytes: int
    value_stamp: str
    def __init__(self, parquet_id: _Optional[bytes] = ..., path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., iceberg_data_file_id: _Optional[str] = ..., record_count: _Optional[int] = ..., first_offset_delta: _Optional[int] = ..., last_offset_delta: _Optional[int] = ..., min_timestamp_ms: _Optional[int] = ..., max_timestamp_ms: _Optional[int] = ..., footer_bytes: _Optional[int] = ..., value_stamp: _Optional[str] = ...) -> None: ...

class ProducerSnapshot(_message.Message):
    __slots__ = ("version", "offset_end", "producers")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_END_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    offset_end: int
    producers: _containers.RepeatedCompositeFieldContainer[ProducerState]
    def __init__(self, version: _Optional[int] = ..., offset_end: _Optional[int] = ..., producers: _Optional[_Iterable[_Union[ProducerState, _Mapping]]] = ...) -> None: ...

class ProducerState(_message.Message):
    __slots__ = ("id", "epoch", "last_written_at_ms", "batches")
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_WRITTEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    id: int
    epoch: int
    last_written_at_ms: int
    batches: _containers.RepeatedCompositeFieldContainer[ProducerBatch]
    def __init__(self, id: _Optional[int] = ..., epoch: _Optional[int] = ..., last_written_at_ms: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[ProducerBatch, _Mapping]]] = ...) -> None: ...

class ProducerBatch(_message.Message):
    __slots__ = ("first_sequence", "last_sequence", "base_offset", "max_timestamp_ms")
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp_ms: int
    def __init__(self, first_sequence: _Optional[int] = ..., last_sequence: _Optional[int] = ..., base_offset: _Optional[int] = ..., max_timestamp_ms: _Optional[int] = ...) -> None: ...
