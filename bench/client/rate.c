/* rate: records at an even pace. Latency counts from the moment a record was due, so that a
 * client that falls behind does not hide it, to its acknowledgement, and with consume=1 to its
 * arrival at a consumer in this process. */
#include "bench_client.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLL_MS 10

static struct latencies acks, arrivals;
static int64_t start_ns, interval_ns, total;
static atomic_llong acked, arrived;
static atomic_int reading, done;

static int64_t due_ns(int64_t index) {
        return start_ns + index * interval_ns;
}

static void on_delivery(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque) {
        (void)handle, (void)opaque;
        if (message->err)
                die("a record failed: %s", rd_kafka_err2str(message->err));
        int64_t index = (int64_t)(intptr_t)message->_private;
        acks.values_ns[index] = now_ns() - due_ns(index);
        atomic_fetch_add(&acked, 1);
}

static void *serve_deliveries(void *handle) {
        while (!atomic_load(&done))
                rd_kafka_poll(handle, POLL_MS);
        return NULL;
}

static void on_arrival(rd_kafka_message_t *message, void *opaque) {
        (void)opaque;
        int64_t index, now = now_ns();
        if (message->err)
                die("consume: %s", rd_kafka_message_errstr(message));
        memcpy(&index, message->payload, sizeof(index));
        if (index < 0 || index >= total)
                die("a record that was never sent");
        arrivals.values_ns[index] = now - due_ns(index);
        atomic_fetch_add(&arrived, 1);
}

static void *read_records(void *options) {
        struct reader reader;
        reader_open(&reader, options);
        atomic_store(&reading, 1);
        while (!atomic_load(&done))
                reader_serve(&reader, POLL_MS, on_arrival);
        reader_close(&reader);
        return NULL;
}

static void sleep_until(int64_t when_ns) {
        struct timespec when = {.tv_sec = when_ns / NS_PER_S, .tv_nsec = when_ns % NS_PER_S};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
                ;
}

static void send_all(rd_kafka_topic_t *topic, const struct options *options) {
        static char value[1000000];
        struct payloads payloads;
        payloads_open(&payloads);
        size_t bytes = (size_t)options->record_bytes;
        start_ns = now_ns() + 10 * NS_PER_MS;
        for (int64_t i = 0; i < total; i++) {
                memcpy(value, payloads_next(&payloads, bytes), bytes);
                memcpy(value, &i, sizeof(i));
                sleep_until(due_ns(i));
                if (rd_kafka_produce(topic, (int32_t)(i % options->partitions),
                                     RD_KAFKA_MSG_F_COPY, value, bytes, NULL, 0,
                                     (void *)(intptr_t)i))
                        die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        }
}

static void wait_for_all(const struct options *options) {
        int64_t deadline = now_ns() + options->timeout_ms * NS_PER_MS;
        while (atomic_load(&acked) < total || (options->consume && atomic_load(&arrived) < total)) {
                if (now_ns() > deadline)
                        die("%lld acknowledged and %lld read of %" PRId64, atomic_load(&acked),
                            atomic_load(&arrived), total);
                sleep_until(now_ns() + NS_PER_MS);
        }
}

void mode_rate(const struct options *options) {
        pthread_t poller, consumer;
        interval_ns = NS_PER_S / options->rate;
        total = (options->warmup_ms + options->duration_ms) * options->rate / 1000;
        size_t skip = (size_t)(options->warmup_ms * options->rate / 1000);
        if (total > RATE_RECORDS_MAX || (int64_t)skip >= total)
                die("rate and duration make no sense");
        latencies_open(&acks, (size_t)total);
        latencies_open(&arrivals, (size_t)total);
        rd_kafka_t *handle =
            open_handle(RD_KAFKA_PRODUCER, producer_conf(options, on_delivery));
        rd_kafka_topic_t *topic = open_topic(handle, options->topic);
        pthread_create(&poller, NULL, serve_deliveries, handle);
        if (options->consume) {
                pthread_create(&consumer, NULL, read_records, (void *)options);
                while (!atomic_load(&reading))
                        sleep_until(now_ns() + NS_PER_MS);
        }
        send_all(topic, options);
        wait_for_all(options);
        atomic_store(&done, 1);
        pthread_join(poller, NULL);
        if (options->consume)
                pthread_join(consumer, NULL);
        printf("{");
        latencies_print("ack", &acks, skip);
        if (options->consume) {
                printf(", ");
                latencies_print("arrival", &arrivals, skip);
        }
        printf("}\n");
        rd_kafka_topic_destroy(topic);
        rd_kafka_destroy(handle);
}
