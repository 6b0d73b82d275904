/* What the modes of the benchmark client share: options, time, errors, librdkafka handles. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include <librdkafka/rdkafka.h>
#include <stddef.h>
#include <stdint.h>

#define NS_PER_MS 1000000LL
#define NS_PER_S 1000000000LL
#define PARTITIONS_MAX 100000
#define RATE_RECORDS_MAX 10000000

/* Everything a mode may be told, as key=value arguments; options.c has the defaults. */
struct options {
        const char *bootstrap;
        const char *topic;
        const char *compression;
        int64_t partitions;
        int64_t record_bytes;
        int64_t batch_bytes;
        int64_t batch_records; /* 0: as many as fit into batch_bytes */
        int64_t linger_ms;
        int64_t idempotence; /* 0 or 1 */
        int64_t in_flight;   /* requests per connection; 0: librdkafka's default */
        int64_t queue_records;
        int64_t warmup_ms;
        int64_t duration_ms;
        int64_t total_bytes_max; /* a produce run ends here if its time is not over yet */
        int64_t records;         /* how many a consume run reads */
        int64_t rate;            /* records per second of a paced run */
        int64_t consume;         /* 1: a paced run measures end to end as well */
        int64_t timeout_ms;
};

/* options.c */
struct options options_parse(int count, char **arguments);

/* support.c */
int64_t now_ns(void);
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* handles.c */
struct wire_counts {
        int64_t tx_bytes; /* sent to brokers so far, as librdkafka's statistics count it */
        int64_t tx_requests;
};
typedef void delivery_callback(rd_kafka_t *, const rd_kafka_message_t *, void *);
rd_kafka_conf_t *producer_conf(const struct options *options, delivery_callback *on_delivery);
rd_kafka_conf_t *consumer_conf(const struct options *options);
void conf_set(rd_kafka_conf_t *conf, const char *name, const char *value);
void conf_set_number(rd_kafka_conf_t *conf, const char *name, int64_t value);
rd_kafka_t *open_handle(rd_kafka_type_t type, rd_kafka_conf_t *conf);
rd_kafka_topic_t *open_topic(rd_kafka_t *handle, const char *name);
struct wire_counts wire_counts_now(rd_kafka_t *handle);

/* create.c */
void create_topic(rd_kafka_t *handle, const struct options *options);

/* payload.c */
struct payloads {
        char *text;
        size_t text_bytes;
        size_t next;
};
void payloads_open(struct payloads *payloads);
void *payloads_next(struct payloads *payloads, size_t record_bytes);

/* latency.c */
struct latencies {
        int64_t *values_ns; /* -1: not seen */
        size_t count;
};
void latencies_open(struct latencies *latencies, size_t count);
void latencies_print(const char *name, struct latencies *latencies, size_t skip);

/* reader.c */
struct reader {
        rd_kafka_t *handle;
        rd_kafka_topic_t *topic;
        rd_kafka_queue_t *queue;
        int64_t partitions;
};
void reader_open(struct reader *reader, const struct options *options);
typedef void arrival_callback(rd_kafka_message_t *, void *);
int reader_serve(struct reader *reader, int timeout_ms, arrival_callback *on_arrival);
void reader_close(struct reader *reader);

/* One function per mode, in the file of its name. Each prints one line of JSON. */
void mode_create(const struct options *options);
void mode_produce(const struct options *options);
void mode_consume(const struct options *options);
void mode_rate(const struct options *options);
void mode_partitions(const struct options *options);
void mode_ping(const struct options *options);

#endif
