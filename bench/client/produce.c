/* produce: as fast as the broker acknowledges. What is counted is what was acknowledged between
 * the end of the warm-up, which starts with the first answer, and the end of the run, so that
 * neither connecting nor the last flush is in it; what was not sent by then is dropped. With batch_records=1 and linger_ms=0 each record is a request of its own. */
#include "bench_client.h"

#include <inttypes.h>
#include <stdio.h>

#define POLL_EVERY_RECORDS 64
#define FULL_QUEUE_WAIT_MS 5

static struct {
        int64_t acked, failed;
        rd_kafka_resp_err_t last_error;
} seen;

static void on_delivery(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque) {
        (void)handle, (void)opaque;
        if (message->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE)
                return; /* never sent: the run was over */
        if (message->err) {
                seen.failed++;
                seen.last_error = message->err;
        } else {
                seen.acked++;
        }
}

/* What was acknowledged when the warm-up ended and when the run did. */
struct window {
        int64_t warmup_ns, duration_ns, start_ns, first_ack_deadline_ns;
        int64_t warm_due_ns, end_due_ns; /* 0 until something is acknowledged */
        int64_t warm_ns, warm_acked, end_ns, end_acked;
};

/* Whether the time is over. Called also while the queue is full: a slow broker must not move the
 * edges of the window. */
static int is_over(struct window *window) {
        int64_t now = now_ns();
        if (window->warm_due_ns == 0 && seen.acked) {
                window->warm_due_ns = now + window->warmup_ns;
                window->end_due_ns = window->warm_due_ns + window->duration_ns;
        }
        if (window->warm_due_ns == 0) {
                if (now > window->first_ack_deadline_ns)
                        die("nothing was acknowledged in time");
                return 0;
        }
        if (window->warm_ns == 0 && now >= window->warm_due_ns) {
                window->warm_ns = now;
                window->warm_acked = seen.acked;
        }
        return now >= window->end_due_ns;
}

static int send_one(rd_kafka_t *handle, rd_kafka_topic_t *topic, struct window *window,
                    int32_t partition, void *value, size_t bytes) {
        while (rd_kafka_produce(topic, partition, 0, value, bytes, NULL, 0, NULL) == -1) {
                rd_kafka_resp_err_t error = rd_kafka_last_error();
                if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                        die("produce: %s", rd_kafka_err2str(error));
                rd_kafka_poll(handle, FULL_QUEUE_WAIT_MS);
                if (is_over(window))
                        return 0;
        }
        return 1;
}

static void send_all(rd_kafka_t *handle, rd_kafka_topic_t *topic, struct window *window,
                     const struct options *options) {
        struct payloads payloads;
        payloads_open(&payloads);
        size_t bytes = (size_t)options->record_bytes;
        int64_t sent_max = options->total_bytes_max / options->record_bytes;
        for (int64_t sent = 0; sent < sent_max; sent++) {
                int32_t partition = (int32_t)(sent % options->partitions);
                void *value = payloads_next(&payloads, bytes);
                if (!send_one(handle, topic, window, partition, value, bytes))
                        return;
                if (sent % POLL_EVERY_RECORDS == 0) {
                        rd_kafka_poll(handle, 0);
                        if (is_over(window))
                                return;
                }
        }
}

static struct window run(rd_kafka_t *handle, rd_kafka_topic_t *topic,
                         const struct options *options) {
        int64_t start_ns = now_ns();
        struct window window = {
            .warmup_ns = options->warmup_ms * NS_PER_MS,
            .duration_ns = options->duration_ms * NS_PER_MS,
            .start_ns = start_ns,
            .first_ack_deadline_ns = start_ns + options->timeout_ms * NS_PER_MS,
        };
        send_all(handle, topic, &window, options);
        window.end_ns = now_ns();
        window.end_acked = seen.acked;
        if (window.warm_ns == 0) {
                /* The byte limit came before the end of the warm-up: all of it counts. */
                window.warm_ns = window.start_ns;
                window.warm_acked = 0;
        }
        return window;
}

void mode_produce(const struct options *options) {
        rd_kafka_t *handle =
            open_handle(RD_KAFKA_PRODUCER, producer_conf(options, on_delivery));
        rd_kafka_topic_t *topic = open_topic(handle, options->topic);
        struct window window = run(handle, topic, options);
        rd_kafka_purge(handle, RD_KAFKA_PURGE_F_QUEUE);
        if (rd_kafka_flush(handle, (int)options->timeout_ms))
                die("records are still without an answer after %" PRId64 " ms",
                    options->timeout_ms);
        if (seen.failed)
                die("%" PRId64 " records failed, the last with %s", seen.failed,
                    rd_kafka_err2str(seen.last_error));
        struct wire_counts counts = wire_counts_now(handle);
        printf("{\"records\": %" PRId64 ", \"seconds\": %.6f, \"record_bytes\": %" PRId64
               ", \"records_total\": %" PRId64 ", \"wire_bytes_total\": %" PRId64
               ", \"requests_total\": %" PRId64 "}\n",
               window.end_acked - window.warm_acked,
               (double)(window.end_ns - window.warm_ns) / NS_PER_S, options->record_bytes,
               seen.acked, counts.tx_bytes, counts.tx_requests);
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(handle);
}
