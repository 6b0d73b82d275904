/* Record values: text that compresses about as log lines do, the same in every run. */
#include "bench_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES (8u << 20)
#define WORDS 512
#define WORD_BYTES_MAX 12

static uint64_t state;

static uint64_t random_next(void) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
}

void payloads_open(struct payloads *payloads) {
        static char words[WORDS][WORD_BYTES_MAX + 1];
        state = 0x746f7770617468ULL;
        for (int i = 0; i < WORDS; i++) {
                size_t length = 2 + random_next() % (WORD_BYTES_MAX - 2);
                for (size_t j = 0; j < length; j++)
                        words[i][j] = (char)('a' + random_next() % 26);
        }
        payloads->text = malloc(TEXT_BYTES + 32);
        if (payloads->text == NULL)
                die("out of memory");
        size_t at = 0;
        while (at < TEXT_BYTES) {
                /* One token in six is a number: what no dictionary helps with. */
                if (random_next() % 6 == 0)
                        at += (size_t)sprintf(payloads->text + at, "%u ",
                                              (unsigned)(random_next() % 100000000));
                else
                        at += (size_t)sprintf(payloads->text + at, "%s ",
                                              words[random_next() % WORDS]);
        }
        payloads->text_bytes = TEXT_BYTES;
        payloads->next = 0;
}

/* The next value; it stays valid and unchanged, so that librdkafka need not copy it. */
void *payloads_next(struct payloads *payloads, size_t record_bytes) {
        if (payloads->next + record_bytes > payloads->text_bytes)
                payloads->next = payloads->next % 61;
        void *found = payloads->text + payloads->next;
        payloads->next += record_bytes;
        return found;
}
