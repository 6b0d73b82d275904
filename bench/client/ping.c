/* ping: tries until one record is acknowledged, and tells when that was, on the machine's
 * monotonic clock. The broker may still be starting. */
#include "bench_client.h"

#include <inttypes.h>
#include <stdio.h>

static int64_t acked_ns;

static void on_delivery(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque) {
        (void)handle, (void)opaque;
        if (message->err)
                die("the record failed: %s", rd_kafka_err2str(message->err));
        acked_ns = now_ns();
}

void mode_ping(const struct options *options) {
        rd_kafka_conf_t *conf = producer_conf(options, on_delivery);
        conf_set(conf, "reconnect.backoff.ms", "10");
        conf_set(conf, "reconnect.backoff.max.ms", "50");
        conf_set(conf, "topic.metadata.refresh.fast.interval.ms", "20");
        rd_kafka_t *handle = open_handle(RD_KAFKA_PRODUCER, conf);
        rd_kafka_topic_t *topic = open_topic(handle, options->topic);
        int64_t opened = now_ns(), deadline = opened + options->timeout_ms * NS_PER_MS;
        if (rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, "ping", 4, NULL, 0, NULL))
                die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        while (acked_ns == 0) {
                if (now_ns() > deadline)
                        die("not acknowledged within %" PRId64 " ms", options->timeout_ms);
                rd_kafka_poll(handle, 10);
        }
        printf("{\"opened_ns\": %" PRId64 ", \"acked_ns\": %" PRId64 "}\n", opened, acked_ns);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(handle);
}
