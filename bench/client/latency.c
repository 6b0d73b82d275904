/* Latencies of a run and their percentiles. */
#include "bench_client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void latencies_open(struct latencies *latencies, size_t count) {
        latencies->count = count;
        latencies->values_ns = malloc(count * sizeof(int64_t));
        if (latencies->values_ns == NULL)
                die("out of memory");
        for (size_t i = 0; i < count; i++)
                latencies->values_ns[i] = -1;
}

static int compare(const void *left, const void *right) {
        int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
        return (a > b) - (a < b);
}

/* The nearest-rank percentile in microseconds. */
static double percentile_us(const int64_t *sorted, size_t count, double percent) {
        size_t rank = (size_t)ceil(percent / 100.0 * (double)count);
        return (double)sorted[rank ? rank - 1 : 0] / 1000.0;
}

/* Print "name": {...}, without the first `skip` values. Sorts in place. */
void latencies_print(const char *name, struct latencies *latencies, size_t skip) {
        int64_t *values = latencies->values_ns + skip;
        size_t count = latencies->count - skip;
        qsort(values, count, sizeof(int64_t), compare);
        if (count == 0 || values[0] < 0)
                die("%s: records without an answer", name);
        printf("\"%s\": {\"count\": %zu, \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, "
               "\"p999_us\": %.1f, \"max_us\": %.1f, \"curve_us\": [",
               name, count, percentile_us(values, count, 50), percentile_us(values, count, 90),
               percentile_us(values, count, 99), percentile_us(values, count, 99.9),
               percentile_us(values, count, 100));
        for (int percent = 1; percent <= 99; percent++)
                printf("%s%.1f", percent > 1 ? ", " : "", percentile_us(values, count, percent));
        printf("]}");
}
