/* librdkafka producers and consumers with the settings every system is measured with. */
#include "bench_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What Kafka's own producer buffers by default. */
#define QUEUE_KBYTES "32768"
#define STATISTICS_INTERVAL_MS "100"
#define STATISTICS_WAIT_MS 1000

void conf_set(rd_kafka_conf_t *conf, const char *name, const char *value) {
        char error[512];
        if (rd_kafka_conf_set(conf, name, value, error, sizeof(error)) != RD_KAFKA_CONF_OK)
                die("%s", error);
}

void conf_set_number(rd_kafka_conf_t *conf, const char *name, int64_t value) {
        char text[32];
        snprintf(text, sizeof(text), "%" PRId64, value);
        conf_set(conf, name, text);
}

/* The statistics arrive as JSON; their own totals are the two fields read here. */
static struct wire_counts counts;
static int counts_seen;

static int64_t field(const char *json, const char *name) {
        const char *found = strstr(json, name);
        return found == NULL ? 0 : strtoll(found + strlen(name), NULL, 10);
}

static int on_statistics(rd_kafka_t *handle, char *json, size_t bytes, void *opaque) {
        (void)handle, (void)bytes, (void)opaque;
        counts.tx_bytes = field(json, "\"tx_bytes\":");
        /* The brokers' own "tx" counters come first in the text; the total is the one whose
         * neighbour is "tx_bytes". */
        const char *total = strstr(json, "\"tx_bytes\":");
        if (total != NULL) {
                while (total > json && strncmp(total, "\"tx\":", 5) != 0)
                        total--;
                counts.tx_requests = field(total, "\"tx\":");
        }
        counts_seen++;
        return 0;
}

struct wire_counts wire_counts_now(rd_kafka_t *handle) {
        int before = counts_seen;
        int64_t deadline = now_ns() + STATISTICS_WAIT_MS * NS_PER_MS;
        while (counts_seen == before && now_ns() < deadline)
                rd_kafka_poll(handle, 10);
        return counts;
}

static void on_log(const rd_kafka_t *handle, int level, const char *facility, const char *text) {
        (void)handle, (void)level, (void)facility, (void)text;
}

static rd_kafka_conf_t *common_conf(const struct options *options) {
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        conf_set(conf, "bootstrap.servers", options->bootstrap);
        conf_set(conf, "client.id", "towpath-bench");
        conf_set(conf, "socket.nagle.disable", "true");
        conf_set(conf, "topic.metadata.refresh.fast.interval.ms", "100");
        /* Failures are counted by the modes; a broker that is not up yet is no news. */
        rd_kafka_conf_set_log_cb(conf, on_log);
        return conf;
}

rd_kafka_conf_t *producer_conf(const struct options *options, delivery_callback *on_delivery) {
        rd_kafka_conf_t *conf = common_conf(options);
        conf_set(conf, "acks", "all");
        conf_set(conf, "enable.idempotence", options->idempotence ? "true" : "false");
        conf_set(conf, "compression.codec", options->compression);
        conf_set_number(conf, "batch.size", options->batch_bytes);
        conf_set_number(conf, "batch.num.messages",
                        options->batch_records ? options->batch_records : 1000000);
        conf_set_number(conf, "linger.ms", options->linger_ms);
        conf_set_number(conf, "queue.buffering.max.messages", options->queue_records);
        conf_set(conf, "queue.buffering.max.kbytes", QUEUE_KBYTES);
        if (options->in_flight)
                conf_set_number(conf, "max.in.flight", options->in_flight);
        conf_set(conf, "statistics.interval.ms", STATISTICS_INTERVAL_MS);
        rd_kafka_conf_set_stats_cb(conf, on_statistics);
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        return conf;
}

rd_kafka_conf_t *consumer_conf(const struct options *options) {
        return common_conf(options);
}

rd_kafka_t *open_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
        char error[512];
        rd_kafka_t *handle = rd_kafka_new(type, conf, error, sizeof(error));
        if (handle == NULL)
                die("%s", error);
        return handle;
}

rd_kafka_topic_t *open_topic(rd_kafka_t *handle, const char *name) {
        rd_kafka_topic_t *topic = rd_kafka_topic_new(handle, name, NULL);
        if (topic == NULL)
                die("topic %s: %s", name, rd_kafka_err2str(rd_kafka_last_error()));
        return topic;
}
