/* create: a topic, and the wait until every partition of it has a leader. */
#include "bench_client.h"

#include <stdio.h>
#include <unistd.h>

#define LEADER_POLL_US 20000

static void no_delivery(rd_kafka_t *handle, const rd_kafka_message_t *message, void *opaque) {
        (void)handle, (void)message, (void)opaque;
}

static void request_creation(rd_kafka_t *handle, const struct options *options) {
        char error[512];
        rd_kafka_NewTopic_t *wanted =
            rd_kafka_NewTopic_new(options->topic, (int)options->partitions, 1, error, sizeof(error));
        if (wanted == NULL)
                die("%s", error);
        rd_kafka_AdminOptions_t *admin =
            rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_CREATETOPICS);
        int timeout_ms = (int)options->timeout_ms;
        rd_kafka_AdminOptions_set_request_timeout(admin, timeout_ms, error, sizeof(error));
        rd_kafka_AdminOptions_set_operation_timeout(admin, timeout_ms, error, sizeof(error));
        rd_kafka_queue_t *queue = rd_kafka_queue_new(handle);
        rd_kafka_CreateTopics(handle, &wanted, 1, admin, queue);
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, timeout_ms);
        if (event == NULL)
                die("%s was not created in time", options->topic);
        if (rd_kafka_event_error(event))
                die("%s: %s", options->topic, rd_kafka_event_error_string(event));
        size_t count;
        const rd_kafka_topic_result_t **results = rd_kafka_CreateTopics_result_topics(
            rd_kafka_event_CreateTopics_result(event), &count);
        if (count != 1 || rd_kafka_topic_result_error(results[0]))
                die("%s: %s", options->topic, rd_kafka_topic_result_error_string(results[0]));
        rd_kafka_event_destroy(event);
        rd_kafka_queue_destroy(queue);
        rd_kafka_AdminOptions_destroy(admin);
        rd_kafka_NewTopic_destroy(wanted);
}

static int has_leaders(rd_kafka_t *handle, const struct options *options) {
        rd_kafka_topic_t *topic = open_topic(handle, options->topic);
        const struct rd_kafka_metadata *found;
        int ready = 0;
        if (rd_kafka_metadata(handle, 0, topic, &found, (int)options->timeout_ms) == 0) {
                const struct rd_kafka_metadata_topic *seen = &found->topics[0];
                ready = found->topic_cnt == 1 && seen->partition_cnt == options->partitions;
                for (int i = 0; ready && i < seen->partition_cnt; i++)
                        ready = seen->partitions[i].err == 0 && seen->partitions[i].leader >= 0;
                rd_kafka_metadata_destroy(found);
        }
        rd_kafka_topic_destroy(topic);
        return ready;
}

void create_topic(rd_kafka_t *handle, const struct options *options) {
        int64_t deadline = now_ns() + options->timeout_ms * NS_PER_MS;
        request_creation(handle, options);
        while (!has_leaders(handle, options)) {
                if (now_ns() > deadline)
                        die("%s has partitions without leader", options->topic);
                usleep(LEADER_POLL_US);
        }
}

void mode_create(const struct options *options) {
        rd_kafka_t *handle =
            open_handle(RD_KAFKA_PRODUCER, producer_conf(options, no_delivery));
        create_topic(handle, options);
        printf("{\"topic\": \"%s\"}\n", options->topic);
        rd_kafka_destroy(handle);
}
