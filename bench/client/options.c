/* key=value arguments. */
#include "bench_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct number_option {
        const char *name;
        size_t place;
        int64_t low, high;
};

#define NUMBER(field, low, high) {#field, offsetof(struct options, field), low, high}

static const struct number_option numbers[] = {
    NUMBER(partitions, 1, PARTITIONS_MAX),
    NUMBER(record_bytes, 16, 1000000),
    NUMBER(batch_bytes, 1, 100000000),
    NUMBER(batch_records, 0, 1000000),
    NUMBER(linger_ms, 0, 60000),
    NUMBER(idempotence, 0, 1),
    NUMBER(in_flight, 0, 1000000),
    NUMBER(queue_records, 1, 10000000),
    NUMBER(warmup_ms, 0, 600000),
    NUMBER(duration_ms, 1, 3600000),
    NUMBER(total_bytes_max, 1, INT64_C(1) << 50),
    NUMBER(records, 1, INT64_C(1) << 50),
    NUMBER(rate, 1, 1000000),
    NUMBER(consume, 0, 1),
    NUMBER(timeout_ms, 1, 3600000),
};

static void set_option(struct options *options, const char *name, const char *value) {
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                if (strcmp(name, numbers[i].name) != 0)
                        continue;
                char *end;
                errno = 0;
                long long number = strtoll(value, &end, 10);
                if (errno || *end || end == value || number < numbers[i].low ||
                    number > numbers[i].high)
                        die("%s=%s is out of range", name, value);
                *(int64_t *)((char *)options + numbers[i].place) = number;
                return;
        }
        if (strcmp(name, "bootstrap") == 0)
                options->bootstrap = value;
        else if (strcmp(name, "topic") == 0)
                options->topic = value;
        else if (strcmp(name, "compression") == 0)
                options->compression = value;
        else
                die("unknown option %s", name);
}

struct options options_parse(int count, char **arguments) {
        struct options options = {
            .bootstrap = "127.0.0.1:9092",
            .topic = "bench",
            .compression = "none",
            .partitions = 1,
            .record_bytes = 100,
            .batch_bytes = 1000000,
            .linger_ms = 5,
            .queue_records = 1000000,
            .warmup_ms = 500,
            .duration_ms = 3000,
            .total_bytes_max = INT64_C(1) << 30,
            .records = 1,
            .rate = 1000,
            .timeout_ms = 60000,
        };
        for (int i = 0; i < count; i++) {
                char *equals = strchr(arguments[i], '=');
                if (equals == NULL)
                        die("expected key=value, not %s", arguments[i]);
                *equals = '\0';
                set_option(&options, arguments[i], equals + 1);
        }
        return options;
}
