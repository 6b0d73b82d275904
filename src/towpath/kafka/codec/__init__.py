"""Kafka's wire format: generated messages, readers and writers compiled from their schemas."""

from towpath.kafka.codec.codec import decode, encode, encode_chunks, reader, writer
from towpath.kafka.codec.primitives import MalformedMessage

__all__ = ["MalformedMessage", "decode", "encode", "encode_chunks", "reader", "writer"]
