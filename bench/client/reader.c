/* Reads all partitions of a topic from offset 0, without a group. */
#include "bench_client.h"

void reader_open(struct reader *reader, const struct options *options) {
        reader->handle = open_handle(RD_KAFKA_CONSUMER, consumer_conf(options));
        reader->topic = open_topic(reader->handle, options->topic);
        reader->queue = rd_kafka_queue_new(reader->handle);
        reader->partitions = options->partitions;
        for (int64_t i = 0; i < options->partitions; i++)
                if (rd_kafka_consume_start_queue(reader->topic, (int32_t)i, 0, reader->queue))
                        die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
}

/* Calls back for every message that has arrived, after waiting for the first; how many it were.
 * (The calls that fill an array wait until it is full, which spoils latencies.) */
int reader_serve(struct reader *reader, int timeout_ms, arrival_callback *on_arrival) {
        int count = rd_kafka_consume_callback_queue(reader->queue, timeout_ms, on_arrival, NULL);
        if (count < 0)
                die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
        return count;
}

void reader_close(struct reader *reader) {
        for (int64_t i = 0; i < reader->partitions; i++)
                rd_kafka_consume_stop(reader->topic, (int32_t)i);
        rd_kafka_queue_destroy(reader->queue);
        rd_kafka_topic_destroy(reader->topic);
        rd_kafka_destroy(reader->handle);
}
