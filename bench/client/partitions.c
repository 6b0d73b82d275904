/* partitions: create a topic of many partitions, then one acknowledged record in each. */
#include "bench_client.h"

#include <inttypes.h>
#include <stdio.h>

static int64_t failed;

static void on_delivery(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque) {
        (void)handle, (void)opaque;
        failed += message->err != 0;
}

void mode_partitions(const struct options *options) {
        rd_kafka_t *handle =
            open_handle(RD_KAFKA_PRODUCER, producer_conf(options, on_delivery));
        struct payloads payloads;
        payloads_open(&payloads);
        int64_t start = now_ns();
        create_topic(handle, options);
        int64_t created = now_ns();
        rd_kafka_topic_t *topic = open_topic(handle, options->topic);
        size_t bytes = (size_t)options->record_bytes;
        for (int64_t i = 0; i < options->partitions; i++)
                if (rd_kafka_produce(topic, (int32_t)i, 0, payloads_next(&payloads, bytes), bytes,
                                     NULL, 0, NULL))
                        die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        if (rd_kafka_flush(handle, (int)options->timeout_ms) || failed)
                die("%" PRId64 " failed, %d without an answer", failed, rd_kafka_outq_len(handle));
        int64_t end = now_ns();
        printf("{\"create_seconds\": %.6f, \"produce_seconds\": %.6f}\n",
               (double)(created - start) / NS_PER_S, (double)(end - created) / NS_PER_S);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(handle);
}
