/* consume: a number of records from offset 0. The clock starts with the first records, which are
 * not counted; the time from opening the client to them is told apart. */
#include "bench_client.h"

#include <inttypes.h>
#include <stdio.h>

#define WAIT_MS 10

static int64_t records, bytes;

static void on_arrival(rd_kafka_message_t *message, void *opaque) {
        (void)opaque;
        if (message->err)
                die("consume: %s", rd_kafka_message_errstr(message));
        records++;
        bytes += (int64_t)message->len;
}

void mode_consume(const struct options *options) {
        int64_t opened_ns = now_ns(), deadline_ns = opened_ns + options->timeout_ms * NS_PER_MS;
        int64_t first_ns = 0, first_records = 0, first_bytes = 0, last_ns = 0;
        struct reader reader;
        reader_open(&reader, options);
        while (records < options->records) {
                reader_serve(&reader, WAIT_MS, on_arrival);
                last_ns = now_ns();
                if (first_ns == 0 && records) {
                        first_ns = last_ns;
                        first_records = records;
                        first_bytes = bytes;
                }
                if (last_ns > deadline_ns)
                        die("%" PRId64 " of %" PRId64 " records within %" PRId64 " ms", records,
                            options->records, options->timeout_ms);
        }
        printf("{\"records\": %" PRId64 ", \"seconds\": %.6f, \"bytes\": %" PRId64
               ", \"records_total\": %" PRId64 ", \"first_ms\": %.3f}\n",
               records - first_records, (double)(last_ns - first_ns) / NS_PER_S,
               bytes - first_bytes, records, (double)(first_ns - opened_ns) / NS_PER_MS);
        reader_close(&reader);
}
